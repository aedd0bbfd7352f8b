/* queue.h - the stem of another folder. */
