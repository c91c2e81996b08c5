//! The wire front doors of Garret: the Model Context Protocol.
