//! The tools that a model may call: typed arguments, schemas, and answers made for a model.
