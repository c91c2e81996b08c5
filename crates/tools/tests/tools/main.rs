//! The tools as a model meets them: through a toolbox, with JSON in and text and JSON out.

mod arguments;
mod exports;
mod files;
mod paging;
mod secrets;
mod support;
