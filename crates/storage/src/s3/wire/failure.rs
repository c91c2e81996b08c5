//! Failures of requests, before a path and an operation are added.

use std::time::Duration;

use garret_core::{Error, ErrorKind};
use http::StatusCode;

use super::request::S3Operation;

/// The message of the error for a changed server. Nothing was written if an error has exactly this message.
pub(in super::super) const SERVER_CHANGED: &str =
    "the server is not the one that was probed, or does not do what it did at the probe";

/// The reason why a request failed.
#[derive(Debug)]
pub(in super::super) enum S3RequestError {
    /// No object is at the key.
    NotFound,
    /// There is no such bucket.
    NoBucket,
    /// A condition did not hold, or another client was writing at the same moment.
    Precondition,
    /// The range begins past the end of the object.
    Range,
    /// The server does not know the upload in parts any more.
    NoUpload,
    /// The server refuses these credentials, or they lack a permission.
    Refused {
        operation: S3Operation,
        code: Option<String>,
    },
    /// No credentials were found.
    NoCredentials,
    /// The server does not support this request.
    Unsupported,
    /// An answer contradicted the probe, and the request was not sent.
    ServerChanged,
    /// The key is too long for the server.
    KeyTooLong,
    /// The server is busy or broken, even after all retries.
    Busy { status: StatusCode, code: Option<String> },
    /// The server did not answer in time.
    TimedOut(Duration),
    /// The connection failed.
    Unreachable(&'static str),
    /// Any other status.
    Other { status: StatusCode, code: Option<String> },
    /// An error of this process: a source that failed, or an answer that makes no sense.
    Local(Error),
}

impl S3RequestError {
    /// Classifies a status and the error code that came with it.
    pub(super) fn from_status(operation: S3Operation, status: StatusCode, code: Option<String>) -> Self {
        match (status.as_u16(), code.as_deref()) {
            (_, Some("NoSuchBucket")) => Self::NoBucket,
            (_, Some("NoSuchUpload")) => Self::NoUpload,
            (_, Some("KeyTooLongError")) => Self::KeyTooLong,
            (_, Some("RequestTimeout")) => Self::Busy { status, code },
            // A write needs no existing object, so the server does not accept this key.
            (404, _) if operation == S3Operation::Put => Self::Other { status, code },
            (404, _) => Self::NotFound,
            // 409 is the answer to a conditional write that races with another write of the key.
            (409 | 412, _) => Self::Precondition,
            (416, _) => Self::Range,
            (501, _) | (_, Some("NotImplemented")) => Self::Unsupported,
            (401 | 403, _) => Self::Refused { operation, code },
            (408 | 429 | 500..=599, _) => Self::Busy { status, code },
            _ => Self::Other { status, code },
        }
    }

    /// Returns whether the same request may succeed in a moment.
    pub(super) fn is_temporary(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::TimedOut(_) | Self::Unreachable(_))
    }

    /// Converts the failure into the error that callers see; it contains no host name, no key and no text of the
    /// server.
    pub(in super::super) fn into_error(self) -> Error {
        match self {
            Self::Local(error) => error,
            Self::NotFound => Error::new(ErrorKind::NotFound, "the object does not exist"),
            Self::NoBucket => Error::new(ErrorKind::NotFound, "there is no such bucket")
                .hint("make the bucket first, or correct its name"),
            Self::Precondition => Error::new(ErrorKind::Conflict, "another program changed the object"),
            Self::Range => Error::invalid("the range lies past the end of the object"),
            Self::NoUpload => Error::new(ErrorKind::Unavailable, "another process ended the upload"),
            Self::NoCredentials => no_credentials_error(),
            Self::Refused { operation, code } => refused_error(operation, code.as_deref()),
            Self::Unsupported => Error::new(ErrorKind::Unsupported, "the server does not support this request"),
            Self::ServerChanged => Error::new(ErrorKind::Unavailable, SERVER_CHANGED)
                .hint("open the workspace again: the server is probed before anything is written"),
            Self::KeyTooLong => Error::invalid("the path is too long for the server")
                .hint("S3 keys can have at most 1024 bytes, including the prefix"),
            Self::TimedOut(after) => Error::new(
                ErrorKind::Timeout,
                format!("the server did not answer within {} ms", after.as_millis()),
            )
            .hint("try again, or raise `request_timeout_ms`"),
            Self::Unreachable(why) => Error::new(ErrorKind::Unavailable, why).hint("check `endpoint` and try again"),
            Self::Busy { status, code } => Error::new(
                ErrorKind::Unavailable,
                format!("the server answers {}", format_status(status, code.as_deref())),
            ),
            Self::Other { status, code } => Error::invalid(format!(
                "the server refuses the request with {}",
                format_status(status, code.as_deref())
            ))
            .hint("check `region`, `endpoint` and `force_path_style`"),
        }
    }
}

fn format_status(status: StatusCode, code: Option<&str>) -> String {
    match code {
        Some(code) => format!("{} {code}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

fn no_credentials_error() -> Error {
    Error::new(ErrorKind::Denied, "no credentials for the server were found").hint(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or `access_key_id` and `secret_access_key` as references",
    )
}

fn refused_error(operation: S3Operation, code: Option<&str>) -> Error {
    let (message, hint) = match code {
        Some("InvalidAccessKeyId") => (
            "the server does not know this access key (InvalidAccessKeyId)".to_owned(),
            "check `access_key_id`, or AWS_ACCESS_KEY_ID",
        ),
        Some("SignatureDoesNotMatch") => (
            "the secret access key does not match the access key (SignatureDoesNotMatch)".to_owned(),
            "check `secret_access_key`, or AWS_SECRET_ACCESS_KEY, and `region`",
        ),
        Some(code @ ("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired")) => (
            format!("the session token has expired or is not valid ({code})"),
            "get new credentials",
        ),
        Some("RequestTimeTooSkewed") => (
            "the clock of this machine differs too much from the clock of the server (RequestTimeTooSkewed)".to_owned(),
            "correct the clock of this machine",
        ),
        _ => (
            format!(
                "the server refused access: the credentials are wrong or lack the permission {} ({})",
                operation.permission(),
                code.unwrap_or("403")
            ),
            "a workspace needs s3:GetObject, s3:PutObject, s3:DeleteObject on its prefix and s3:ListBucket on the bucket",
        ),
    };
    Error::new(ErrorKind::Denied, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(status: u16, code: Option<&str>) -> ErrorKind {
        let status = StatusCode::from_u16(status).unwrap();
        S3RequestError::from_status(S3Operation::Put, status, code.map(str::to_owned))
            .into_error()
            .kind()
    }

    #[test]
    fn a_kind_says_what_to_do_next() {
        for (status, code, kind) in [
            (404, None, ErrorKind::Invalid),
            (404, Some("NoSuchBucket"), ErrorKind::NotFound),
            (409, Some("ConditionalRequestConflict"), ErrorKind::Conflict),
            (412, Some("PreconditionFailed"), ErrorKind::Conflict),
            (403, Some("AccessDenied"), ErrorKind::Denied),
            (403, Some("SignatureDoesNotMatch"), ErrorKind::Denied),
            (503, Some("SlowDown"), ErrorKind::Unavailable),
            (500, None, ErrorKind::Unavailable),
            (501, Some("NotImplemented"), ErrorKind::Unsupported),
            (400, Some("KeyTooLongError"), ErrorKind::Invalid),
            (400, Some("InvalidRequest"), ErrorKind::Invalid),
        ] {
            assert_eq!(kind_of(status, code), kind, "{status} {code:?}");
        }
    }

    #[test]
    fn what_passes_is_tried_again() {
        let passing = |status, code: Option<&str>| {
            let status = StatusCode::from_u16(status).unwrap();
            S3RequestError::from_status(S3Operation::Put, status, code.map(str::to_owned)).is_temporary()
        };
        assert!(passing(503, Some("SlowDown")) && passing(500, None) && passing(429, None));
        assert!(passing(400, Some("RequestTimeout")));
        assert!(!passing(403, None) && !passing(412, None) && !passing(404, None) && !passing(501, None));
    }

    #[test]
    fn a_missing_permission_is_named() {
        let error = refused_error(S3Operation::Delete, Some("AccessDenied"));
        assert!(error.message().contains("s3:DeleteObject"), "{error}");
        let error = refused_error(S3Operation::List, Some("AccessDenied"));
        assert!(error.message().contains("s3:ListBucket"), "{error}");
    }
}
