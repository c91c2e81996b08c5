//! The effects of a command: committing them, setting them aside on conflict, and leftovers of a crash.

pub(super) mod commit_effects;
pub(super) mod commit_without_history;
pub(crate) mod conflict_branch;
pub(crate) mod effects_plan;
pub(super) mod excluded_notes;
pub(super) mod layer_note;
pub(super) mod leftovers;

#[cfg(test)]
mod tests;
