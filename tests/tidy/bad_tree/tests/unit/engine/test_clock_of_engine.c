/* test_clock_of_engine.c - tests nothing that exists. */
