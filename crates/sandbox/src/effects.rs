//! What was done on a layer, read as hostile input.
