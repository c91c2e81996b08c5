//! Conformance suite, reference model, fault injection: what every storage of Garret must pass.
