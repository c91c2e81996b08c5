//! What must hold of any arguments that a model gives to a tool.
//!
//! The first byte chooses the tool. The rest is read as JSON where it is JSON; otherwise it decides, byte by byte, about arguments that
//! are nearly right: the names of the tool's own schema, with values of the right type, the wrong one, and hostile ones.

use std::sync::Arc;

use garret_core::{ErrorKind, History, MemoryStorage, SnapshotOptions, Storage, SystemClock, ToolsConfig};
use garret_tools::{Definition, ToolAnswer, Toolbox};
use garret_workspace::Workspace;
use serde_json::{Map, Value, json};

use crate::mutations::{link, write};
use crate::{Probe, Tree};

/// The longest text that a tool may answer with: 100 KiB, and room for its last line.
const MOST_TEXT_BYTES: usize = (100 << 10) + 4_096;

/// Strings that lead somewhere: paths that exist, clash or escape, patterns, patches, and the words that options take.
const WORDS: [&str; 50] = [
    "a.txt",
    "d",
    "d/b.txt",
    "d/new/c.txt",
    "a.txt/x",
    "missing",
    "link",
    "out",
    "out/passwd",
    "",
    "/",
    ".",
    "..",
    "../../etc/passwd",
    "/workspace/a.txt",
    "/etc/passwd",
    "d/../a.txt",
    "nul\0",
    "new\nline",
    "[...slug]",
    "*",
    "**/*",
    "[",
    "{a,b",
    "a{1000000000}",
    "(",
    "(a*)*b",
    "\\",
    "one",
    "one\ntwo\n",
    "absent",
    "base64",
    "utf-8",
    "AAAA",
    "=",
    "files",
    "counts",
    "content",
    "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n",
    "🦀",
    "0",
    "1",
    "2",
    "before",
    "now",
    "box",
    "redo",
    "change",
    "session",
    "2026-01-02T03:04:05Z",
];

/// Where the tools work while they are tried.
#[derive(Debug, Clone)]
pub struct ToolRoom {
    /// The files: none yet.
    pub storage: Arc<dyn Storage>,
    /// Their history, so that its tools are there too.
    pub history: Option<Arc<dyn History>>,
}

/// Calls a tool with arguments made from `data` and checks what must hold of the answer.
pub fn tool_args(data: &[u8]) {
    let room = ToolRoom {
        storage: Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))),
        history: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a test machine can start a runtime");
    runtime.block_on(tool_args_in(room, data));
}

/// The same in an empty room.
pub async fn tool_args_in(room: ToolRoom, data: &[u8]) {
    let probe = planted(&room).await;
    let before = probe.tree().await;
    let workspace = Workspace::builder(room.storage)
        .history(room.history)
        .open()
        .expect("the default policy is sound");
    let toolbox = Toolbox::new(workspace, ToolsConfig::default());
    let definitions = toolbox.definitions();
    let mut decisions = Decisions(data);
    let definition = &definitions[decisions.below(definitions.len())];
    let arguments = match serde_json::from_slice(decisions.0) {
        Ok(arguments) => arguments,
        Err(_) => decisions.arguments(&definition.input_schema),
    };
    let answer = toolbox.call(&definition.name, arguments.clone()).await;
    let after = probe.tree().await;
    check(definition, &arguments, &answer, (&before, &after));
}

async fn planted(room: &ToolRoom) -> Probe {
    let probe = Probe::new(room.storage.clone(), None);
    let mutations = vec![
        write("a.txt", "one\ntwo\n"),
        write("d/b.txt", "one\r\ntwo"),
        write("d/bytes", vec![0xff, 0x00, 0xfe]),
        link("link", "a.txt"),
        link("out", "/etc"),
    ];
    probe.batch(mutations).await;
    if let Some(history) = &room.history {
        let taken = history.snapshot("before", SnapshotOptions::default()).await;
        taken.expect("the label is free");
        probe.batch(vec![write("d/b.txt", "three\n")]).await;
    }
    probe
}

fn check(definition: &Definition, arguments: &Value, answer: &ToolAnswer, (before, after): (&Tree, &Tree)) {
    let what = format!("{} with {arguments}", definition.canonical);
    let text = &answer.text;
    assert!(
        !text.is_empty() && text.len() <= MOST_TEXT_BYTES,
        "{what} answers with {} bytes",
        text.len()
    );
    match (&answer.data, &answer.error) {
        (Some(data), None) if answer.ok => check_data(definition, &what, data),
        (None, Some(error)) if !answer.ok => {
            assert_ne!(error.kind(), ErrorKind::Internal, "{what}: {error:?}");
            assert!(
                !error.message().is_empty() && !error.hint_text().is_empty(),
                "{what}: {error:?}"
            );
            assert_eq!(before, after, "{what} failed and still changed something");
        }
        _ => panic!("{what} gives neither data nor an error, or both: {answer:?}"),
    }
    if definition.annotations.read_only {
        assert_eq!(before, after, "{what} only reads");
    }
}

/// The data has what the tool's own schema promises.
fn check_data(definition: &Definition, what: &str, data: &Value) {
    let required = definition.output_schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        assert!(data.get(name).is_some(), "{what} answers without {name}: {data}");
    }
}

/// Choices made by bytes; when they run out, always the first.
struct Decisions<'a>(&'a [u8]);

impl Decisions<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, end: usize) -> usize {
        self.byte() % end
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }

    fn arguments(&mut self, schema: &Value) -> Value {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut arguments = Map::new();
        for (name, property) in properties.into_iter().flatten() {
            let odds = if is_required(schema, name) { 15 } else { 5 };
            if self.below(16) <= odds {
                arguments.insert(self.spelled(name), self.fitting(property, schema));
            }
        }
        if self.below(16) == 1 {
            arguments.insert(self.word().to_owned(), self.any(2));
        }
        Value::Object(arguments)
    }

    /// The name as it is, or now and then in camelCase.
    fn spelled(&mut self, name: &str) -> String {
        if self.below(4) > 0 {
            return name.to_owned();
        }
        let mut parts = name.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
        parts.fold(first, |camel, part| camel + &capital(part))
    }

    /// A value that fits the property, most of the time.
    fn fitting(&mut self, property: &Value, root: &Value) -> Value {
        if self.below(16) == 1 {
            return self.any(2);
        }
        let property = resolved(property, root);
        match type_of(property) {
            "string" => Value::from(self.word()),
            "boolean" => Value::from(self.below(2) == 0),
            "integer" | "number" => self.number(),
            "array" => {
                let item = property.get("items").unwrap_or(&Value::Null);
                (0..self.below(4)).map(|_| self.fitting(item, root)).collect()
            }
            "object" => match property.get("properties") {
                Some(_) => self.arguments(property),
                None => self.any(2),
            },
            _ => Value::from(self.word()),
        }
    }

    fn number(&mut self) -> Value {
        let numbers = [
            json!(0),
            json!(1),
            json!(2),
            json!(100),
            json!(-1),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1.5),
            json!(1e300),
        ];
        numbers[self.below(numbers.len())].clone()
    }

    fn any(&mut self, depth: usize) -> Value {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => Value::from(self.below(2) == 0),
            2 => self.number(),
            3 | 4 => Value::from(self.word()),
            5 => (0..self.below(4)).map(|_| self.any(depth - 1)).collect(),
            _ => (0..self.below(4))
                .map(|_| (self.word().to_owned(), self.any(depth - 1)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// The schema that a property stands for: references are followed, and of several choices the first with a type is taken.
fn resolved<'a>(property: &'a Value, root: &'a Value) -> &'a Value {
    let reference = property.get("$ref").and_then(Value::as_str);
    if let Some(found) = reference
        .and_then(|text| text.strip_prefix('#'))
        .and_then(|pointer| root.pointer(pointer))
    {
        return found;
    }
    let choices = property
        .get("anyOf")
        .or_else(|| property.get("oneOf"))
        .and_then(Value::as_array);
    choices
        .and_then(|choices| choices.first())
        .map_or(property, |first| resolved(first, root))
}

fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(one)) => one,
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).next().unwrap_or_default(),
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::tool_args;
    use crate::fuzz::Random;

    #[test]
    fn tools_hold_their_promises_on_random_arguments() {
        let mut random = Random::new(3);
        for _ in 0..3_000 {
            let length = random.below(60) as usize;
            let data: Vec<u8> = (0..length).map(|_| random.next_number() as u8).collect();
            tool_args(&data);
        }
    }

    #[test]
    fn tools_hold_their_promises_on_arguments_that_are_no_objects() {
        for tool in 0..40 {
            for arguments in [
                "null",
                "[]",
                "{}",
                "3",
                "\"a.txt\"",
                "true",
                r#"{"path": null}"#,
                r#"{"path": ["a.txt"]}"#,
            ] {
                tool_args(&[[tool].as_slice(), arguments.as_bytes()].concat());
            }
        }
    }
}
