//! Which tools there are, in the order in which they are offered.

use garret_core::Capabilities;

use crate::tool::AnyTool;

/// The tools of the `fs` capability.
const FS: &[&dyn AnyTool] = &[&crate::exists::Exists];

/// The tools that `capabilities` declare.
pub(crate) fn tools(capabilities: &Capabilities) -> impl Iterator<Item = &'static dyn AnyTool> {
    let fs = if capabilities.fs.policy().is_some() { FS } else { &[] };
    fs.iter().copied()
}
