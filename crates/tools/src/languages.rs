//! The languages of a workspace in the schemas of its tools.

use garret_workspace::Workspace;
use serde_json::Value;

/// Limits the values of `language` to the languages of the workspace.
pub(crate) fn narrow_languages(schema: &mut Value, workspace: &Workspace) {
    let Some(policy) = workspace.code_policy() else { return };
    let names = policy.languages.iter().map(|language| Value::from(language.as_str()));
    schema["properties"]["language"]["enum"] = names.collect();
}
