/* thing.c - a folder that the law does not know. */
