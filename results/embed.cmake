# embed.cmake - text files that travel inside the binary, so that nothing is read at run time.
#
#   include(results/embed.cmake)
#   embed_text(ballast_results results/schema.sql)     # generated/schema_sql.h: schema_sql[]
#
# The same file is the script that writes the header. Bytes are listed as numbers because C17 promises
# only 4095 characters to a string literal; the texts are ASCII (char may be signed).
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ ${INPUT} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  if(bytes MATCHES "0x[89a-f]")
    message(FATAL_ERROR "${INPUT}: only ASCII can be embedded")
  endif()
  get_filename_component(file ${INPUT} NAME)
  file(WRITE ${OUTPUT} "/* Made from ${file} by embed.cmake. */\nstatic const char ${NAME}[] = {\n${bytes}\n0x00\n};\n")
  return()
endif()

set(EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(embed_text target file)
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  get_filename_component(input ${file} ABSOLUTE)
  set(output ${CMAKE_BINARY_DIR}/generated/${name}.h)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${input} -DOUTPUT=${output} -DNAME=${name} -P ${EMBED_SCRIPT}
    DEPENDS ${input} ${EMBED_SCRIPT} VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
