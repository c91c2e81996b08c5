//! As much of JSON Schema as the tools' own schemas use, so that every answer in these tests is held to its schema.

use serde_json::Value;

/// Panics where `value` is not what `schema` describes, or has a key that it does not describe.
pub(crate) fn check(value: &Value, schema: &Value, place: &str) {
    assert!(conforms(value, schema), "{place} has {value}, against {schema}");
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                let property = &schema["properties"][key];
                assert!(property.is_object(), "{place} has `{key}`, which its schema does not");
                check(inner, property, &format!("{place}.{key}"));
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| check(item, &schema["items"], &format!("{place}[]"))),
        _ => {}
    }
}

fn conforms(value: &Value, schema: &Value) -> bool {
    let alternatives = schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))
        .and_then(Value::as_array);
    if let Some(alternatives) = alternatives {
        return alternatives.iter().any(|schema| conforms(value, schema));
    }
    let has_type = match &schema["type"] {
        Value::String(name) => is_a(value, name),
        Value::Array(names) => names.iter().any(|name| is_a(value, name.as_str().unwrap())),
        other => panic!("a type that is {other} in {schema}"),
    };
    let required = schema["required"].as_array().into_iter().flatten();
    let has_required = !value.is_object() || required.clone().all(|name| value.get(name.as_str().unwrap()).is_some());
    let in_enum = schema
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|values| values.contains(value));
    has_type && has_required && in_enum && schema.get("const").is_none_or(|constant| constant == value)
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other}"),
    }
}
