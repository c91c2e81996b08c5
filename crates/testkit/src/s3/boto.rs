//! boto3 as the other program that uses a bucket.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts another program beside the storage under test"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::keys::Keys;
use super::programs::{installed, script};

/// A boto3 client of one bucket, in a process of its own, which ends with this one.
#[derive(Debug)]
pub struct Boto {
    bucket: String,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// An object as boto3 gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its user metadata.
    pub metadata: BTreeMap<String, String>,
    /// Its entity tag, with quotes.
    pub etag: String,
}

/// What the script answers.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Failed { code: String, message: String },
    Done { done: Value },
}

#[derive(Deserialize)]
struct Found {
    body: String,
    metadata: BTreeMap<String, String>,
    etag: String,
}

impl Boto {
    /// A client of `bucket` at `endpoint`.
    pub fn new(endpoint: &str, keys: &Keys, bucket: &str) -> Self {
        let mut process = Command::new(installed("python"))
            .arg(script("boto.py"))
            .args([endpoint, &keys.access_key_id, &keys.secret_access_key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python can be run");
        let input = process.stdin.take();
        let output = process.stdout.take().expect("it is piped");
        Self {
            bucket: bucket.to_owned(),
            process,
            input,
            output: BufReader::new(output),
        }
    }

    /// Makes the bucket.
    pub fn make_bucket(&mut self) -> Result<(), String> {
        self.try_ask("make_bucket", json!({}))
    }

    /// Puts an object.
    pub fn put(&mut self, key: &str, body: &[u8], metadata: &[(&str, &str)]) {
        self.try_put(key, body, metadata)
            .unwrap_or_else(|failure| panic!("boto3 cannot put {key:?}: {failure}"));
    }

    /// Puts an object that the server may refuse.
    pub fn try_put(&mut self, key: &str, body: &[u8], metadata: &[(&str, &str)]) -> Result<(), String> {
        let metadata: BTreeMap<_, _> = metadata.iter().copied().collect();
        self.try_ask("put", json!({ "key": key, "body": latin(body), "metadata": metadata }))
    }

    /// Puts an object on the condition that there is none.
    pub fn create(&mut self, key: &str, body: &[u8]) -> Result<(), String> {
        self.try_ask("create", json!({ "key": key, "body": latin(body) }))
    }

    /// Gets an object that must be there.
    pub fn get(&mut self, key: &str) -> Object {
        self.try_get(key)
            .unwrap_or_else(|failure| panic!("boto3 cannot get {key:?}: {failure}"))
    }

    /// Gets an object.
    pub fn try_get(&mut self, key: &str) -> Result<Object, String> {
        let found: Found = self.try_ask("get", json!({ "key": key }))?;
        Ok(Object {
            body: found.body.chars().map(|one| one as u8).collect(),
            metadata: found.metadata,
            etag: found.etag,
        })
    }

    /// Deletes an object.
    pub fn delete(&mut self, key: &str) {
        self.try_delete(key)
            .unwrap_or_else(|failure| panic!("boto3 cannot delete {key:?}: {failure}"));
    }

    /// Deletes an object where the server allows it.
    pub fn try_delete(&mut self, key: &str) -> Result<(), String> {
        self.try_ask("delete", json!({ "key": key }))
    }

    /// All keys that begin with `prefix`, in order.
    pub fn keys(&mut self, prefix: &str) -> Vec<String> {
        self.try_keys(prefix)
            .unwrap_or_else(|failure| panic!("boto3 cannot list: {failure}"))
    }

    /// All keys that begin with `prefix`, where the server allows it.
    pub fn try_keys(&mut self, prefix: &str) -> Result<Vec<String>, String> {
        self.try_ask("keys", json!({ "prefix": prefix }))
    }

    /// The keys of the multipart uploads that were begun and neither completed nor aborted.
    pub fn uploads(&mut self, prefix: &str) -> Vec<String> {
        let uploads = self.try_ask("uploads", json!({ "prefix": prefix }));
        uploads.unwrap_or_else(|failure| panic!("boto3 cannot list uploads: {failure}"))
    }

    fn try_ask<T: DeserializeOwned>(&mut self, operation: &str, mut arguments: Value) -> Result<T, String> {
        arguments["operation"] = operation.into();
        arguments["bucket"] = self.bucket.as_str().into();
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{arguments}").expect("the script reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the script answers");
        match serde_json::from_str(&line).expect("the script answers as agreed") {
            Answer::Done { done } => Ok(serde_json::from_value(done).expect("the script answers what was asked")),
            Answer::Failed { code, message } => Err(format!("{code}: {message}")),
        }
    }
}

/// One character for each byte.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

impl Drop for Boto {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}
