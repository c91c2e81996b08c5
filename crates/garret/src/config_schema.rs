//! The JSON schema of a configuration file, for editors and for the reference.

use garret_core::{Config, StorageFactory};
use garret_storage::s3::{S3Factory, S3Options};
use garret_storage::{LocalFactory, LocalOptions};
use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};

use crate::filestore::{self, FilestoreOptions};

/// Returns the JSON schema of a configuration file, with the options of each storage.
pub fn config_schema() -> Value {
    let mut schema = serde_json::to_value(schema_for!(Config)).expect("a schema is JSON");
    let mut definitions = Map::new();
    let tables = [
        table_schema::<LocalOptions>(LocalFactory.kind(), &mut definitions),
        table_schema::<S3Options>(S3Factory.kind(), &mut definitions),
        table_schema::<FilestoreOptions>(filestore::KIND, &mut definitions),
    ];
    schema["title"] = "garret.toml".into();
    let all = schema["$defs"]
        .as_object_mut()
        .expect("a configuration has inner types");
    all.extend(definitions);
    let url = json!({
        "type": "string",
        "description": "A URL: the kind, a colon, and a rest that the kind interprets; `memory:` keeps files as long as the program runs.",
    });
    let description = all["StorageConfig"]["description"].clone();
    let shapes: Vec<Value> = [url].into_iter().chain(tables).collect();
    all.insert(
        "StorageConfig".into(),
        json!({"description": description, "anyOf": shapes}),
    );
    schema
}

/// Returns the schema of the table that configures a storage of the kind. The types that its options refer to are added
/// to `definitions`.
fn table_schema<T: JsonSchema>(kind: &str, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = serde_json::to_value(schema_for!(T)).expect("a schema is JSON");
    let object = schema.as_object_mut().expect("options are an object");
    object.remove("$schema");
    if let Some(Value::Object(inner)) = object.remove("$defs") {
        definitions.extend(inner);
    }
    let properties = object["properties"].as_object_mut().expect("options have names");
    let kind = json!({"const": kind, "description": "The kind of the storage.", "examples": [kind]});
    properties.insert("kind".into(), kind);
    let required = object.entry("required").or_insert_with(|| json!([]));
    required.as_array_mut().expect("a list of names").push("kind".into());
    schema
}

#[cfg(test)]
mod tests {
    use garret_core::{Result, StorageConfig, shape};

    use super::*;

    /// An option of the schema, and how a value of it becomes a whole configuration.
    struct SchemaOption<'a> {
        key: String,
        schema: &'a Value,
        is_required: bool,
        embed: Box<dyn Fn(Value) -> Value + 'a>,
    }

    fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
        let pointer = schema["$ref"]
            .as_str()
            .and_then(|reference| reference.strip_prefix('#'));
        pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
    }

    /// Returns the first example of an option; every option has one.
    fn example(schema: &Value, root: &Value) -> Value {
        let of_type = || resolve(schema, root)["examples"][0].clone();
        schema["examples"].get(0).cloned().unwrap_or_else(of_type)
    }

    fn add_options<'a>(
        schema: &'a Value,
        root: &'a Value,
        key: &str,
        embed: std::rc::Rc<dyn Fn(Value) -> Value + 'a>,
        found: &mut Vec<SchemaOption<'a>>,
    ) {
        let schema = resolve(schema, root);
        for variants in [&schema["anyOf"], &schema["oneOf"]] {
            for variant in variants.as_array().into_iter().flatten() {
                add_options(variant, root, key, embed.clone(), found);
            }
        }
        if schema["items"].is_object() {
            let embed = embed.clone();
            let embed = std::rc::Rc::new(move |value| embed(json!([value])));
            add_options(&schema["items"], root, &format!("{key}[]"), embed, found);
        }
        if schema["additionalProperties"].is_object() {
            let embed = embed.clone();
            let embed = std::rc::Rc::new(move |value| embed(json!({"NAME": value})));
            add_options(
                &schema["additionalProperties"],
                root,
                &format!("{key}.NAME"),
                embed,
                found,
            );
        }
        let required: Vec<&str> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let mut others = Map::new();
            for other in &required {
                others.insert((*other).to_owned(), example(&schema["properties"][*other], root));
            }
            let (name_of, embed) = (name.clone(), embed.clone());
            let embed = std::rc::Rc::new(move |value| {
                let mut object = others.clone();
                object.insert(name_of.clone(), value);
                embed(Value::Object(object))
            });
            let key = if key.is_empty() {
                name.clone()
            } else {
                format!("{key}.{name}")
            };
            found.push(SchemaOption {
                key: key.clone(),
                schema: property,
                is_required: required.contains(&name.as_str()),
                embed: Box::new({
                    let embed = embed.clone();
                    move |value| embed(value)
                }),
            });
            add_options(property, root, &key, embed, found);
        }
    }

    /// Reads the options of a storage, each by itself: some are only valid together.
    fn check_storage_options(storage: &StorageConfig) -> Result<()> {
        let options = Value::Object(storage.options().cloned().unwrap_or_default());
        match (storage.kind(), storage.options()) {
            (_, None) => Ok(()),
            ("local", _) => shape::from_value::<LocalOptions>(options).map(|_| ()),
            ("s3", _) => shape::from_value::<S3Options>(options).map(|_| ()),
            _ => shape::from_value::<FilestoreOptions>(options).map(|_| ()),
        }
    }

    fn options(root: &Value) -> Vec<SchemaOption<'_>> {
        let mut found = Vec::new();
        add_options(root, root, "", std::rc::Rc::new(|value| value), &mut found);
        found
    }

    #[test]
    fn every_option_has_a_meaning_a_default_and_an_example() {
        let schema = config_schema();
        let options = options(&schema);
        assert!(
            options
                .iter()
                .any(|option| option.key.ends_with("shell.limits.timeout_s"))
        );
        for option in options {
            let of_type = resolve(option.schema, &schema);
            let text = option.schema["description"]
                .as_str()
                .or(of_type["description"].as_str());
            let key = &option.key;
            let text = text.unwrap_or_else(|| panic!("{key} has no description"));
            let says_default = text.replace('\n', " ").contains("The default is");
            let has_default = option.schema.get("default").or(of_type.get("default")).is_some();
            assert!(
                option.is_required || has_default || says_default,
                "{key} has no default: derive it, or write \"The default is …\" in its description"
            );
            assert!(!example(option.schema, &schema).is_null(), "{key} has no example");
        }
    }

    #[test]
    fn every_example_is_read_as_a_part_of_a_configuration() {
        let schema = config_schema();
        for option in options(&schema) {
            let all = option.schema["examples"].as_array().cloned().unwrap_or_default();
            for example in all {
                let whole = (option.embed)(example);
                let read = Config::from_json(&whole.to_string());
                let config = read.unwrap_or_else(|error| panic!("{}: {error}: {whole}", option.key));
                for workspace in config.workspaces.values() {
                    let checked = check_storage_options(&workspace.storage);
                    checked.unwrap_or_else(|error| panic!("{}: {error}: {whole}", option.key));
                }
            }
        }
    }
}
