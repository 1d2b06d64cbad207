//! Generates JSON Schemas (draft 2020-12) from the page, so that other programs can check
//! documents.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::reference::page::{Field, Reference, alternatives};

/// The type of each document on the page, and the file name of its schema.
pub(crate) const DOCUMENTS: [(&str, &str); 4] =
    [("Run", "run"), ("Explanations", "explanations"), ("Doctor", "doctor"), ("RunsCompared", "comparison")];

/// The published schema. It allows unknown fields, because later versions may add fields.
pub(crate) fn published(reference: &Reference, kind: &str, name: &str) -> Value {
    let mut schema = schema(reference, kind, true);
    let described = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("roundtrip {name}"),
        "description": "Made from json-and-csv.md, which has the rules for versions.",
    });
    if let (Value::Object(schema), Value::Object(described)) = (&mut schema, described) {
        schema.extend(described);
    }
    schema
}

fn schema(reference: &Reference, kind: &str, open: bool) -> Value {
    let mut definitions = Map::new();
    let mut wanted = vec![kind.to_owned()];
    let mut known = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if known.insert(name.clone()) {
            let fields = reference.0.get(&name).unwrap_or_else(|| panic!("the page has no type {name}"));
            definitions.insert(name, object(fields, open, &mut wanted));
        }
    }
    json!({ "$ref": format!("#/$defs/{kind}"), "$defs": definitions })
}

fn object(fields: &BTreeMap<String, Field>, open: bool, wanted: &mut Vec<String>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, field) in fields {
        let mut one = any(&field.types, wanted);
        if let Value::Object(one) = &mut one {
            one.insert("description".to_owned(), field.meaning.as_str().into());
        }
        properties.insert(name.clone(), one);
        if !field.optional {
            required.push(name.as_str());
        }
    }
    let mut object = json!({ "type": "object", "properties": properties, "required": required });
    if !open {
        object["additionalProperties"] = false.into();
    }
    object
}

/// One of several types.
fn any(types: &[String], wanted: &mut Vec<String>) -> Value {
    let mut each: Vec<Value> = types
        .iter()
        .map(|kind| match kind.as_str() {
            "null" | "boolean" | "integer" | "number" | "string" | "object" => json!({ "type": kind }),
            list if list.starts_with("list of ") => {
                // The alternatives after `list of` are the types of the list's items.
                let mut inner = alternatives(&list["list of ".len()..]);
                inner.extend(types.iter().filter(|one| !one.starts_with("list of ")).cloned());
                json!({ "type": "array", "items": any(&inner, wanted) })
            }
            map if map.starts_with("map of ") => {
                let inner = alternatives(&map["map of ".len()..]);
                json!({ "type": "object", "additionalProperties": any(&inner, wanted) })
            }
            name => {
                wanted.push(name.to_owned());
                json!({ "$ref": format!("#/$defs/{name}") })
            }
        })
        .collect();
    if each.len() == 1 { each.remove(0) } else { json!({ "anyOf": each }) }
}

/// The schemas in strict form: an unknown field is an error.
pub(crate) struct Schemas(BTreeMap<&'static str, jsonschema::Validator>);

impl Schemas {
    pub(crate) fn of(reference: &Reference) -> Self {
        Self::of_kinds(reference, &DOCUMENTS.map(|(kind, _)| kind))
    }

    pub(crate) fn of_kinds(reference: &Reference, kinds: &[&'static str]) -> Self {
        let validator = |kind: &&'static str| {
            let schema = schema(reference, kind, false);
            (*kind, jsonschema::draft202012::new(&schema).expect("a schema"))
        };
        Self(kinds.iter().map(validator).collect())
    }

    /// The errors in a document.
    pub(crate) fn errors(&self, kind: &str, value: &Value) -> impl Iterator<Item = String> {
        let errors = self.0[kind].iter_errors(value);
        let lines = errors.map(|error| {
            let text: String = error.to_string().chars().take(200).collect();
            format!("schema: {}: {text}", error.instance_path())
        });
        lines.collect::<Vec<_>>().into_iter()
    }
}
