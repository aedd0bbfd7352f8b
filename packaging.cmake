# packaging.cmake - cmake --install, and the Debian package by CPack.
#
#   cmake --install build --prefix ~/ballast      bin/ballast finds share/ballast/scenarios beside it
#   cpack --config build/CPackConfig.cmake -G DEB a package; needs no root
include(GNUInstallDirs)

# The C library: everything static inside, only what sim/ballast.h declares outside.
add_library(ballast_shared SHARED sim/ballast.c)
set_target_properties(ballast_shared PROPERTIES OUTPUT_NAME ballast SOVERSION 1
  VERSION 1.${PROJECT_VERSION_MINOR}.${PROJECT_VERSION_PATCH} PUBLIC_HEADER sim/ballast.h)
target_link_libraries(ballast_shared PRIVATE ballast_cli)
target_compile_definitions(ballast_shared PRIVATE
  BALLAST_INSTALLED_SCENARIOS="${CMAKE_INSTALL_FULL_DATADIR}/ballast/scenarios")
target_link_options(ballast_shared PRIVATE -Wl,--exclude-libs,ALL)
if(NOT BALLAST_SANITIZE) # whose functions come with the program
  target_link_options(ballast_shared PRIVATE -Wl,--no-undefined)
endif()

# Completion and manual page come from the program's own tables.
set(made ${CMAKE_BINARY_DIR}/share)
add_custom_command(OUTPUT ${made}/ballast.1 ${made}/ballast.bash ${made}/ballast.fish ${made}/_ballast
  COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
  COMMAND $<TARGET_FILE:ballast> man > ${made}/ballast.1
  COMMAND $<TARGET_FILE:ballast> completion bash > ${made}/ballast.bash
  COMMAND $<TARGET_FILE:ballast> completion fish > ${made}/ballast.fish
  COMMAND $<TARGET_FILE:ballast> completion zsh > ${made}/_ballast
  DEPENDS ballast VERBATIM)
add_custom_target(ballast_texts ALL DEPENDS ${made}/ballast.1)

# From <libdir>/pkgconfig to the prefix, wherever it is moved to.
string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(CONFIGURE OUTPUT ${made}/ballast.pc CONTENT [[
prefix=${pcfiledir}/@up@
Name: ballast
Description: Offline simulator of large multimodal model training
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lballast
]] @ONLY)

install(TARGETS ballast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ballast_shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${made}/ballast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(DIRECTORY scenarios DESTINATION ${CMAKE_INSTALL_DATADIR}/ballast)
install(FILES ${made}/ballast.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${made}/ballast.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ballast)
install(FILES ${made}/ballast.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${made}/_ballast DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES README.md NOTICE LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ballast)
set(CPACK_PACKAGE_CONTACT "the Ballast authors <ballast@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # libgsl, libsqlite3, libcjson, zlib, libc with their versions
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox | gnuplot")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Below the summary, which is PROJECT_DESCRIPTION; CPack indents.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"How long a multimodal training run takes, whether it fits, what it costs, and
which layout and balancing policy to take: simulated offline, before any
cluster time is bought.
.
The sources are Apache-2.0. This binary is linked with the GNU Scientific
Library and is distributed under GPL-3.0-or-later; see
/usr/share/doc/ballast/copyright.")
include(CPack)
