# version.cmake - writes the version and the commit into a header, only when they changed.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  set(commit "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
                  OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND commit "+dirty")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"/* Made by version.cmake. */\n#define BALLAST_VERSION \"@VERSION@\"\n#define BALLAST_COMMIT \"@commit@\"\n" @ONLY)
