//! JSON schemas in the form that clients of models take: draft 2020-12, nothing by reference, no noise.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// Returns the schema of a tool's arguments.
///
/// An optional argument is one that is not `required`. The schema does not say that it may also be null, because some
/// clients take no type lists. Nor does it say that no other argument is taken: tools accept names from elsewhere too,
/// and refuse unknown ones by themselves.
pub(crate) fn arguments_schema<A: JsonSchema>() -> Value {
    let mut schema = generate_schema::<A>(SchemaSettings::draft2020_12());
    tidy_value(&mut schema, true);
    schema
}

/// Returns the schema of a tool's data, or of the result of another operation.
pub fn data_schema<D: JsonSchema>() -> Value {
    let mut schema = generate_schema::<D>(SchemaSettings::draft2020_12().for_serialize());
    tidy_value(&mut schema, false);
    schema
}

fn generate_schema<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings = settings.with(|settings| {
        // Not every client of a model resolves references.
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    if let Value::Object(object) = &mut schema {
        object.shift_remove("title");
        // The type speaks to programmers; the tool's own description speaks to the model.
        object.shift_remove("description");
    }
    schema
}

/// Removes the parts that tell a model nothing: formats of integers, defaults of null, and in the schema of arguments
/// every default, the null of optional types, and the minimum of a number.
fn tidy_value(schema: &mut Value, is_input: bool) {
    match schema {
        Value::Object(object) => tidy_object(object, is_input),
        Value::Array(items) => items.iter_mut().for_each(|item| tidy_value(item, is_input)),
        _ => {}
    }
}

fn tidy_object(object: &mut Map<String, Value>, is_input: bool) {
    object.shift_remove("format");
    if object.get("default").is_some_and(Value::is_null) {
        object.shift_remove("default");
    }
    if let Some(Value::String(description)) = object.get_mut("description") {
        // The source breaks its lines; a description does not.
        *description = description.replace('\n', " ");
    }
    if is_input {
        object.shift_remove("default");
        object.shift_remove("minimum");
        if object.get("additionalProperties") == Some(&Value::Bool(false)) {
            object.shift_remove("additionalProperties");
        }
        drop_null(object);
        join_constants(object);
    }
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            // The keys here are names of properties, even if they look like keywords of a schema.
            ("properties", Value::Object(properties)) => {
                properties
                    .values_mut()
                    .for_each(|property| tidy_value(property, is_input));
            }
            (_, value) => tidy_value(value, is_input),
        }
    }
}

/// Removes null from the types, values and alternatives of an optional argument.
fn drop_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
        variants.retain(|variant| variant["type"] != "null");
        if let [Value::Object(only)] = variants.as_slice() {
            let only = only.clone();
            object.shift_remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
}

/// Joins alternatives that are constants into one list of values; the argument's own description explains each.
fn join_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = object.get("oneOf") else {
        return;
    };
    let values: Option<Vec<Value>> = variants.iter().map(|variant| variant.get("const").cloned()).collect();
    if let Some(values) = values {
        object.shift_remove("oneOf");
        object.insert("type".into(), "string".into());
        object.insert("enum".into(), values.into());
    }
}
