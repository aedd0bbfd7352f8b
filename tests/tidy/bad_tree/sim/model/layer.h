/* layer.h - fine. */
