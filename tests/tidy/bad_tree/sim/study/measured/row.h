/* row.h - fixture of test_tidy.sh */
