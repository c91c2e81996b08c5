//! Headers with secrets that the proxy adds to requests to one host, and their removal from what comes back.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use garret_core::{Error, RequestedHost, Result, Secrets};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// A header with a secret value for the requests to one host.
#[derive(Clone)]
pub struct HostHeader {
    host: RequestedHost,
    name: HeaderName,
    value: HeaderValue,
    /// The texts that must not come back.
    values: BTreeSet<String>,
}

/// Without the value.
impl fmt::Debug for HostHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HostHeader({} for {})", self.name, self.host)
    }
}

impl HostHeader {
    /// Makes the header `name` with `prefix` and `value`. An error does not show the value.
    pub fn new(host: RequestedHost, name: &str, prefix: &str, value: &str) -> Result<Self> {
        let wrong = |what: &str| Error::invalid(format!("the secret of `network.secrets` for {host} {what}"));
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| wrong("has a wrong name of a header").hint("write a name such as `authorization`"))?;
        if value.is_empty() {
            return Err(wrong("is empty").hint("set the variable or the file that `value` names"));
        }
        let whole = format!("{prefix}{value}");
        let mut header = HeaderValue::from_str(&whole)
            .map_err(|_| wrong("has a character that no header takes").hint("a value is one line of printable text"))?;
        header.set_sensitive(true);
        Ok(Self {
            values: hidden_values(&whole, value),
            host,
            name,
            value: header,
        })
    }
}

/// Returns every text that gives the secret away: the value, each word of it, what `Basic` encodes, and the forms in
/// which servers usually write a header that they show.
fn hidden_values(whole: &str, value: &str) -> BTreeSet<String> {
    let token = value.rsplit(' ').next().unwrap_or(value);
    let mut hidden = BTreeSet::from([whole, value, token].map(str::to_owned));
    if whole.to_ascii_lowercase().starts_with("basic ")
        && let Some(plain) = STANDARD
            .decode(token)
            .ok()
            .and_then(|plain| String::from_utf8(plain).ok())
    {
        hidden.extend(plain.split_once(':').map(|(_, password)| password.to_owned()));
        hidden.insert(plain);
    } else {
        // Without padding, because a text with padding begins like one without.
        for text in [whole, value] {
            hidden.extend([STANDARD_NO_PAD.encode(text), URL_SAFE_NO_PAD.encode(text)]);
        }
    }
    let in_urls: Vec<_> = hidden.iter().flat_map(|text| percent_forms(text)).collect();
    hidden.extend(in_urls);
    hidden.retain(|text| !text.is_empty());
    hidden
}

/// Returns a text as it stands in an URL. Libraries differ in the marks that they keep, and in the case of the digits.
fn percent_forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for kept in ["-._~", "-._~/", "-._~!*'()"] {
        let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte);
        let encode = |byte: u8, encoded: String| {
            if is_kept(byte) {
                char::from(byte).to_string()
            } else {
                encoded
            }
        };
        forms.push(text.bytes().map(|byte| encode(byte, format!("%{byte:02X}"))).collect());
        forms.push(text.bytes().map(|byte| encode(byte, format!("%{byte:02x}"))).collect());
    }
    forms
}

/// All headers with secrets for one host.
#[derive(Debug, Clone)]
pub(crate) struct HostSecrets {
    headers: Vec<HostHeader>,
    pub(crate) secrets: Secrets,
}

impl HostSecrets {
    /// Returns the headers for a host; `None` if it has none.
    pub(crate) fn for_host(all: &[HostHeader], host: &RequestedHost) -> Option<Self> {
        let headers: Vec<_> = all.iter().filter(|one| one.host == *host).cloned().collect();
        if headers.is_empty() {
            return None;
        }
        let values = headers
            .iter()
            .flat_map(|one| one.values.iter().map(|value| ("secret", value)));
        Some(Self {
            secrets: Secrets::new(values),
            headers,
        })
    }

    /// Adds the secrets to a request. Headers are left out that would let a server send the value in a form in which it
    /// cannot be found: in another encoding, or in parts.
    pub(crate) fn add_to_request(&self, headers: &mut HeaderMap) {
        for name in [header::ACCEPT_ENCODING, header::RANGE, header::IF_RANGE, header::TE] {
            headers.remove(name);
        }
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for one in &self.headers {
            headers.insert(one.name.clone(), one.value.clone());
        }
    }

    /// Whether a response is encoded, so that a value could not be found in it.
    pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
        let has_other = |name, plain: &[u8]| {
            let mut values = headers.get_all(name).iter();
            values.any(|value| !value.as_bytes().eq_ignore_ascii_case(plain))
        };
        has_other(header::CONTENT_ENCODING, b"identity") || has_other(header::TRANSFER_ENCODING, b"chunked")
    }

    /// Masks the values in the headers of a response, and leaves out its length, which changes.
    pub(crate) fn mask_response(&self, headers: &mut HeaderMap) {
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRAILER);
        let masked: HeaderMap = headers
            .iter()
            .filter_map(|(name, value)| {
                let shown = self.mask_bytes(value.as_bytes());
                // Names come in lower case, whatever the server wrote.
                let has_value = |value: &String| name.as_str().contains(&value.to_ascii_lowercase());
                let is_secret_name = self.headers.iter().flat_map(|one| &one.values).any(has_value);
                let value = HeaderValue::from_bytes(&shown).ok()?;
                (!is_secret_name).then(|| (name.clone(), value))
            })
            .collect();
        *headers = masked;
    }

    fn mask_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut masker = garret_core::Masker::new(&self.secrets);
        let mut shown = masker.push(bytes);
        shown.extend(masker.finish());
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(prefix: &str, value: &str) -> HostSecrets {
        let host = RequestedHost::parse("api.example.org:443", None).unwrap();
        let header = HostHeader::new(host.clone(), "authorization", prefix, value).unwrap();
        HostSecrets::for_host(&[header], &host).unwrap()
    }

    #[test]
    fn a_secret_is_added_and_masked_in_the_forms_in_which_it_may_come_back() {
        let basic = format!("Basic {}", STANDARD.encode("user:hunter22"));
        for (prefix, value, forms) in [
            (
                "Bearer ",
                "tok-12345",
                vec!["tok-12345", "Bearer tok-12345", "Bearer%20tok-12345"],
            ),
            (
                "",
                "a+b/c=d",
                vec!["a%2Bb%2Fc%3Dd", "a%2bb%2fc%3dd", "a%2Bb/c%3Dd", "YStiL2M9ZA"],
            ),
            ("", "o?>?>?>", vec!["bz8-Pz4_Pg", "bz8+Pz4/Pg"]),
            ("", basic.as_str(), vec![basic.as_str(), "user:hunter22", "hunter22"]),
        ] {
            let secrets = secrets(prefix, value);
            let mut request = HeaderMap::new();
            request.insert(header::RANGE, HeaderValue::from_static("bytes=1-2"));
            secrets.add_to_request(&mut request);
            assert!(request.get(header::RANGE).is_none());
            assert_eq!(
                request[header::AUTHORIZATION].as_bytes(),
                format!("{prefix}{value}").as_bytes()
            );
            for form in forms {
                let mut response = HeaderMap::new();
                response.insert("x-echo", HeaderValue::from_str(form).unwrap());
                secrets.mask_response(&mut response);
                assert_eq!(response["x-echo"], "[secret]", "{form}");
            }
        }
    }

    #[test]
    fn a_wrong_secret_is_refused_without_its_value() {
        let host = RequestedHost::parse("api.example.org:443", None).unwrap();
        for (name, value) in [
            ("bad name", "hunter22"),
            ("authorization", "hunter22\n"),
            ("authorization", ""),
        ] {
            let error = HostHeader::new(host.clone(), name, "", value).unwrap_err();
            assert!(!error.to_string().contains("hunter22"), "{error}");
        }
    }
}
