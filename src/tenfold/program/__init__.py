"""The Program: typed ops over named buffers and weights; passes; the reference interpreter."""
