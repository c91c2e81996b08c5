//! Requests to an S3 server: built, signed, sent, counted and retried in one place.
//!
//! Signing, credentials and the HTTP transport are object_store's. Its verbs are not used, because they lack features
//! that this storage needs: keys that end with a slash, conditional deletes, copies and completed uploads, new headers
//! with a copy, and the error code of the server (docs/decisions/0009-s3.md).

mod answer;
pub(super) mod encode;
mod endpoint;
pub(super) mod failure;
mod identity;
pub(super) mod request;
mod request_counts;
mod retry;
pub(super) mod xml;

use std::sync::Arc;
use std::time::Duration;

use garret_core::{Clock, Error, Ids, Result};
use http::{HeaderMap, StatusCode};
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, ReqwestConnector};

pub(super) use self::answer::HttpAnswer;
use self::endpoint::BucketEndpoint;
use self::failure::S3RequestError;
use self::identity::ServerIdentity;
use self::request::{BodyDelivery, S3Request};
use self::request_counts::RequestCounter;
pub use self::request_counts::RequestCounts;
use self::retry::RetryBackoff;
use super::options::S3Options;

/// A connection to one bucket.
#[derive(Debug)]
pub(super) struct S3Client {
    http: HttpClient,
    endpoint: BucketEndpoint,
    region: String,
    credentials: AwsCredentialProvider,
    timeout: Duration,
    backoff: RetryBackoff,
    counter: Arc<RequestCounter>,
    identity: ServerIdentity,
}

impl S3Client {
    /// Makes a client with these options; no request is sent yet.
    pub(super) fn new(
        options: &S3Options,
        credentials: AwsCredentialProvider,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Result<Self> {
        let timeout = Duration::from_millis(options.request_timeout_ms);
        Ok(Self {
            http: connect_http(timeout)?,
            endpoint: BucketEndpoint::new(options),
            region: options.region.clone(),
            credentials,
            timeout,
            backoff: RetryBackoff::new(options, clock, ids),
            counter: Arc::default(),
            identity: ServerIdentity::default(),
        })
    }

    /// Returns the server as its answers show it.
    pub(super) fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    /// Returns the numbers of requests and bytes so far.
    pub(super) fn requests(&self) -> RequestCounts {
        self.counter.snapshot()
    }

    /// Returns the name of the bucket, as a copy names its source.
    pub(super) fn bucket(&self) -> &str {
        self.endpoint.bucket()
    }

    /// Returns the URL of the bucket, which identifies it.
    pub(super) fn bucket_url(&self) -> String {
        self.endpoint.base_url()
    }

    /// Sends a request; repeats it after a pause if it fails for a temporary reason.
    pub(super) async fn send(&self, call: &S3Request) -> Result<HttpAnswer, S3RequestError> {
        self.send_counting_retries(call).await.0
    }

    /// Sends a request like `send`, and also returns the number of retries: with retries, an earlier attempt may have
    /// succeeded although its answer was lost.
    pub(super) async fn send_counting_retries(&self, call: &S3Request) -> (Result<HttpAnswer, S3RequestError>, u32) {
        let mut attempt = 0;
        loop {
            let failure = match self.send_once(call).await {
                Ok(answer) => return (Ok(answer), attempt),
                Err(failure) => failure,
            };
            if attempt >= self.backoff.max_retries() || !failure.is_temporary() {
                return (Err(failure), attempt);
            }
            attempt += 1;
            self.backoff.wait_before_retry(attempt).await;
        }
    }

    /// Waits as long as before a retry, for callers that retry more than one request.
    pub(super) async fn pause_before_retry(&self, attempt: u32) {
        self.backoff.wait_before_retry(attempt).await;
    }

    async fn send_once(&self, call: &S3Request) -> Result<HttpAnswer, S3RequestError> {
        let request = self.sign_request(call).await?;
        // Counted before it is sent, because a request without an answer costs as much.
        self.counter.count_request(call);
        let sent = tokio::time::timeout(self.timeout, self.http.execute(request));
        let response = sent
            .await
            .map_err(|_| S3RequestError::TimedOut(self.timeout))?
            .map_err(|error| transport_failure(&error, self.timeout))?;
        let (parts, body) = response.into_parts();
        self.identity.see_answer(parts.status, &parts.headers);
        let mut answer = HttpAnswer::new(parts.headers, body, self.timeout, self.counter.clone());
        if !parts.status.is_success() {
            return Err(self.read_refusal(call, parts.status, answer).await);
        }
        if call.wants == BodyDelivery::Whole {
            answer.whole = answer.take_whole().await?;
            if let Some(code) = xml::error_code(&answer.whole) {
                // Copies and completed uploads can fail after the status 200 was sent.
                return Err(S3RequestError::from_status(
                    call.operation,
                    StatusCode::INTERNAL_SERVER_ERROR,
                    Some(code),
                ));
            }
        }
        Ok(answer)
    }

    async fn sign_request(&self, call: &S3Request) -> Result<HttpRequest, S3RequestError> {
        let credential = self
            .credentials
            .get_credential()
            .await
            .map_err(|_| S3RequestError::NoCredentials)?;
        let mut request = HttpRequest::new(call.body.clone().into());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = self.endpoint.request_uri(call).map_err(S3RequestError::Local)?;
        *request.headers_mut() = call.headers.clone();
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|_| S3RequestError::NoCredentials)?;
        Ok(request)
    }

    async fn read_refusal(&self, call: &S3Request, status: StatusCode, mut answer: HttpAnswer) -> S3RequestError {
        let body = answer.take_whole().await.unwrap_or_default();
        let failure = S3RequestError::from_status(call.operation, status, xml::error_code(&body));
        self.identity.see_failure(&failure);
        failure
    }
}

fn connect_http(timeout: Duration) -> Result<HttpClient> {
    // An embedding program may have installed another provider already; then that one is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Each step has a timeout of its own; a whole transfer may last as long as bytes arrive.
    let options = ClientOptions::new()
        .with_allow_http(true)
        .with_timeout_disabled()
        .with_connect_timeout(timeout);
    ReqwestConnector::default()
        .connect(&options)
        .map_err(|_| Error::new(garret_core::ErrorKind::Internal, "the HTTP client cannot be set up"))
}

fn transport_failure(error: &HttpError, timeout: Duration) -> S3RequestError {
    match error.kind() {
        HttpErrorKind::Timeout => S3RequestError::TimedOut(timeout),
        HttpErrorKind::Connect => S3RequestError::Unreachable("no connection to the server could be made"),
        _ => S3RequestError::Unreachable("the connection broke before the answer was complete"),
    }
}

/// Returns the URL of the bucket of these options, without a request.
pub(super) fn bucket_url_of(options: &S3Options) -> String {
    BucketEndpoint::new(options).base_url()
}

/// Returns the value of a header as text.
pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
