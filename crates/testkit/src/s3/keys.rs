//! Who asks, and what each may do.

use serde_json::{Value, json};

/// The bucket in which the [limited](Keys::limited) identities may do something; nothing elsewhere.
pub const LIMITED_BUCKET: &str = "garret-limited";

/// The credentials of one identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The public half.
    pub access_key_id: String,
    /// The secret half, which no message may show.
    pub secret_access_key: String,
}

/// One of the four permissions that Garret needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// `s3:GetObject`.
    Get,
    /// `s3:PutObject`.
    Put,
    /// `s3:DeleteObject`.
    Delete,
    /// `s3:ListBucket`.
    List,
}

impl Permission {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Get, Self::Put, Self::Delete, Self::List];

    /// As policies name it.
    pub fn action(self) -> &'static str {
        match self {
            Self::Get => "s3:GetObject",
            Self::Put => "s3:PutObject",
            Self::Delete => "s3:DeleteObject",
            Self::List => "s3:ListBucket",
        }
    }
}

impl Keys {
    fn named(name: &str) -> Self {
        Self {
            access_key_id: format!("GARRET{}", name.to_uppercase()),
            secret_access_key: format!("the-secret-of-{name}"),
        }
    }

    /// May do everything.
    pub fn admin() -> Self {
        Self::named("admin")
    }

    /// May get, put and delete objects of [`LIMITED_BUCKET`] and list it, and nothing else. Of SeaweedFS.
    pub fn limited() -> Self {
        Self::named("limited")
    }

    /// Like [`limited`](Self::limited), but for one permission. Of SeaweedFS.
    pub fn without(missing: Permission) -> Self {
        Self::named(&format!("without{missing:?}").to_lowercase())
    }

    /// The public half of the admin's, with a secret that is not theirs.
    pub fn wrong() -> Self {
        Self {
            secret_access_key: "the-secret-of-somebody-else".to_owned(),
            ..Self::admin()
        }
    }
}

/// The identities of a SeaweedFS, as its configuration has them.
pub(super) fn configuration() -> Value {
    let mut identities = vec![identity("admin", &Keys::admin())];
    identities[0]["actions"] = json!(["Admin", "Read", "Write", "List", "Tagging"]);
    let mut policies = Vec::new();
    let mut add = |keys: Keys, allowed: &[Permission]| {
        let name = keys.access_key_id.to_lowercase();
        let mut limited = identity(&name, &keys);
        limited["policyNames"] = json!([name]);
        identities.push(limited);
        policies.push(json!({ "name": name, "content": policy(allowed).to_string() }));
    };
    add(Keys::limited(), &Permission::ALL);
    for missing in Permission::ALL {
        let allowed: Vec<_> = Permission::ALL.into_iter().filter(|one| *one != missing).collect();
        add(Keys::without(missing), &allowed);
    }
    json!({ "identities": identities, "policies": policies })
}

fn identity(name: &str, keys: &Keys) -> Value {
    let credentials = json!([{ "accessKey": keys.access_key_id, "secretKey": keys.secret_access_key }]);
    json!({ "name": name, "credentials": credentials, "actions": [] })
}

fn policy(allowed: &[Permission]) -> Value {
    let statement = |permission: &Permission| {
        let below = if *permission == Permission::List { "" } else { "/*" };
        json!({
            "Effect": "Allow",
            "Action": [permission.action()],
            "Resource": [format!("arn:aws:s3:::{LIMITED_BUCKET}{below}")],
        })
    };
    json!({ "Version": "2012-10-17", "Statement": allowed.iter().map(statement).collect::<Vec<_>>() })
}
