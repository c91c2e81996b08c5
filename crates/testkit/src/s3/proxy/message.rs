//! Requests and responses of HTTP/1.1: where each ends, and nothing else about them.

use std::io::{BufRead, Error, ErrorKind, Read, Result, Write};

/// No head is longer; what is sent instead is no HTTP.
const LONGEST_HEAD: usize = 1 << 20;

/// A request or a response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The first line and the headers, with the empty line after them.
    pub(super) head: Vec<u8>,
    /// The body as it was framed.
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The next request of a client; `None` where it has closed. `client` is told to go on where it waits for that.
    pub(super) fn request(input: &mut impl BufRead, client: &mut impl Write) -> Result<Option<Self>> {
        let Some(head) = head(input)? else { return Ok(None) };
        let mut request = Self { head, body: Vec::new() };
        if request.header("expect").is_some() {
            client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            request.drop_header("expect");
        }
        request.body = request.framed_body(input)?.unwrap_or_default();
        Ok(Some(request))
    }

    /// The response to a request; those that only say to go on are skipped.
    pub(super) fn response(input: &mut impl BufRead, request: &Self) -> Result<Self> {
        let head = head(input)?.ok_or(ErrorKind::UnexpectedEof)?;
        let mut response = Self { head, body: Vec::new() };
        let status = response.status().ok_or(ErrorKind::InvalidData)?;
        if status < 200 {
            return Self::response(input, request);
        }
        let has_body = request.method() != "HEAD" && status != 204 && status != 304;
        if has_body {
            response.body = match response.framed_body(input)? {
                Some(body) => body,
                None => rest(input)?,
            };
        }
        Ok(response)
    }

    /// An error of S3, without a body for a `HEAD`.
    pub(super) fn failure(status: u16, code: &str, request: &Self) -> Self {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>as planned</Message></Error>"
        );
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n");
        let has_body = request.method() != "HEAD";
        Self {
            head: head.into_bytes(),
            body: if has_body { body.into_bytes() } else { Vec::new() },
        }
    }

    /// Head and body.
    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.head[..], &self.body[..]].concat()
    }

    /// The method of a request.
    pub(super) fn method(&self) -> &str {
        self.word(0)
    }

    /// The path and query of a request.
    pub(super) fn target(&self) -> &str {
        self.word(1)
    }

    /// The status of a response.
    pub(super) fn status(&self) -> Option<u16> {
        self.word(1).parse().ok()
    }

    /// The value of a header, named in lower case.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }

    fn drop_header(&mut self, name: &str) {
        let is_other = |line: &&str| {
            line.split(':')
                .next()
                .is_none_or(|found| !found.eq_ignore_ascii_case(name))
        };
        let kept: Vec<_> = self.lines().filter(is_other).collect();
        self.head = (kept.join("\r\n") + "\r\n\r\n").into_bytes();
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let text = std::str::from_utf8(&self.head).unwrap_or_default();
        text.split("\r\n").filter(|line| !line.is_empty())
    }

    fn word(&self, index: usize) -> &str {
        let first = self.lines().next().unwrap_or_default();
        first.split(' ').nth(index).unwrap_or_default()
    }

    /// The body where the head says how long it is.
    fn framed_body(&self, input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
        if self.header("transfer-encoding").is_some() {
            return chunks(input).map(Some);
        }
        let Some(length) = self.header("content-length") else {
            return Ok(None);
        };
        let length: u64 = length.parse().map_err(|_| ErrorKind::InvalidData)?;
        let mut body = Vec::new();
        let read = input.take(length).read_to_end(&mut body)?;
        if read as u64 != length {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        Ok(Some(body))
    }
}

/// The lines up to an empty one; `None` where nothing comes.
fn head(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let start = head.len();
        let read = input.read_until(b'\n', &mut head)?;
        if read == 0 {
            return if head.is_empty() {
                Ok(None)
            } else {
                Err(Error::from(ErrorKind::UnexpectedEof))
            };
        }
        if &head[start..] == b"\r\n" {
            return Ok(Some(head));
        }
        if head.len() > LONGEST_HEAD {
            return Err(Error::from(ErrorKind::InvalidData));
        }
    }
}

/// A chunked body, frames and trailers included.
fn chunks(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let start = body.len();
        input.read_until(b'\n', &mut body)?;
        let line = std::str::from_utf8(&body[start..]).map_err(|_| ErrorKind::InvalidData)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| ErrorKind::InvalidData)?;
        if size == 0 {
            body.extend(head_or_nothing(input)?);
            return Ok(body);
        }
        input.take(size + 2).read_to_end(&mut body)?;
    }
}

/// The trailers of a chunked body with the empty line at its end.
fn head_or_nothing(input: &mut impl BufRead) -> Result<Vec<u8>> {
    Ok(head(input)?.unwrap_or_default())
}

fn rest(input: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    input.read_to_end(&mut body)?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::Message;

    fn request(text: &str) -> Message {
        let read = Message::request(&mut text.as_bytes(), &mut Vec::new());
        read.expect("it is HTTP").expect("it is a request")
    }

    #[test]
    fn a_request_ends_where_its_head_says() {
        let mut input = "PUT /b/k HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n\r\n".as_bytes();
        let first = Message::request(&mut input, &mut Vec::new()).expect("it is HTTP");
        assert_eq!(first.expect("it is there").body, b"abc");
        let second = Message::request(&mut input, &mut Vec::new()).expect("it is HTTP");
        let second = second.expect("it is there");
        assert_eq!((second.method(), second.target(), second.body.len()), ("GET", "/b", 0));
        assert_eq!(Message::request(&mut input, &mut Vec::new()).expect("it is over"), None);
    }

    #[test]
    fn a_client_that_waits_is_told_to_go_on() {
        let mut told = Vec::new();
        let text = "PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
        let read = Message::request(&mut text.as_bytes(), &mut told).expect("it is HTTP");
        let read = read.expect("it is a request");
        assert_eq!(told, b"HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(read.bytes(), b"PUT /b/k HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    }

    #[test]
    fn a_chunked_response_is_taken_whole() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nmore";
        let mut input = text.as_bytes();
        let response = Message::response(&mut input, &request("GET /b HTTP/1.1\r\n\r\n")).expect("it is HTTP");
        assert_eq!(
            (response.status(), &response.body[..]),
            (Some(200), &b"3\r\nabc\r\n0\r\n\r\n"[..])
        );
        assert_eq!(input, b"more");
    }

    #[test]
    fn the_response_to_a_head_has_no_body() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        let response = Message::response(&mut text.as_bytes(), &request("HEAD /b/k HTTP/1.1\r\n\r\n"));
        assert_eq!(response.expect("it is HTTP").body, b"");
    }

    #[test]
    fn a_body_that_breaks_off_is_no_message() {
        let text = "PUT /b/k HTTP/1.1\r\nContent-Length: 3\r\n\r\nab";
        assert!(Message::request(&mut text.as_bytes(), &mut Vec::new()).is_err());
    }
}
