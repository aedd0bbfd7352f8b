/* queue.h - the pair of queue.c; one stem, one folder. */
