//! The URL of a bucket.

use std::net::IpAddr;

use garret_core::{Error, Result};
use http::Uri;

use super::super::options::S3Options;
use super::encode;
use super::request::S3Request;

/// The URL of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BucketEndpoint {
    base: String,
    bucket: String,
}

impl BucketEndpoint {
    pub(super) fn new(options: &S3Options) -> Self {
        let server = match &options.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("https://s3.{}.amazonaws.com", options.region),
        };
        let (scheme, host) = server.split_once("://").unwrap_or(("https", &server));
        let base = if options.force_path_style || !can_be_a_host(&options.bucket, host) {
            format!("{server}/{}", options.bucket)
        } else {
            format!("{scheme}://{}.{host}", options.bucket)
        };
        Self {
            base,
            bucket: options.bucket.clone(),
        }
    }

    pub(super) fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(super) fn base_url(&self) -> String {
        self.base.clone()
    }

    /// Returns the URL of a request.
    pub(super) fn request_uri(&self, call: &S3Request) -> Result<Uri> {
        let mut uri = format!("{}/{}", self.base, encode::encode_path(&call.key));
        for (index, (name, value)) in call.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(&format!("{name}={}", encode::encode_query(value)));
        }
        uri.parse()
            .map_err(|_| Error::invalid("the endpoint, the bucket and the path do not form a valid URL"))
    }
}

/// Returns whether the bucket name can be a part of the host name.
fn can_be_a_host(bucket: &str, host: &str) -> bool {
    let name = host.split(['/', ':']).next().unwrap_or_default();
    // An IP address has no subdomains, and the wildcard certificate of a server covers no name with another dot.
    let is_address = host.starts_with('[') || name.parse::<IpAddr>().is_ok() || name == "localhost";
    !is_address && !bucket.contains('.')
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::request::S3Operation;
    use super::*;

    fn base(endpoint: Option<&str>, bucket: &str, force_path_style: bool) -> String {
        let options = S3Options {
            endpoint: endpoint.map(str::to_owned),
            force_path_style,
            ..S3Options::new(bucket, "")
        };
        BucketEndpoint::new(&options).base
    }

    #[test]
    fn the_bucket_is_part_of_the_host_or_of_the_path() {
        assert_eq!(base(None, "b", false), "https://b.s3.us-east-1.amazonaws.com");
        assert_eq!(base(None, "b", true), "https://s3.us-east-1.amazonaws.com/b");
        assert_eq!(base(None, "b.c", false), "https://s3.us-east-1.amazonaws.com/b.c");
        assert_eq!(base(Some("https://host:1/"), "b", false), "https://b.host:1");
        for address in ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9000"] {
            assert_eq!(base(Some(address), "b", false), format!("{address}/b"));
        }
    }

    #[test]
    fn keys_and_queries_are_escaped() {
        let endpoint = BucketEndpoint::new(&S3Options {
            force_path_style: true,
            endpoint: Some("http://h".into()),
            ..S3Options::new("b", "")
        });
        let call = S3Request::new(S3Operation::List, Method::GET, "a b/é").query("prefix", "x/y");
        assert_eq!(
            endpoint.request_uri(&call).unwrap().to_string(),
            "http://h/b/a%20b/%C3%A9?prefix=x%2Fy"
        );
    }
}
