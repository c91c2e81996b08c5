//! One connection of a client: its requests, one after the other, each with its fate.

use std::io::{BufReader, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::State;
use super::fault::Fault;
use super::message::Message;
use super::record::{Seen, operation};

/// What becomes of the connection after an exchange.
enum Next {
    Request,
    /// Ends in good order.
    Close,
    /// Ends with a reset.
    Reset,
}

/// Serves a client until it closes or a fault does. Errors are those of a connection that is over.
pub(super) fn serve(client: TcpStream, state: &State) {
    let _ = client.set_nodelay(true);
    let Ok(reading) = client.try_clone() else { return };
    let mut input = BufReader::new(reading);
    let mut output = client;
    loop {
        let Ok(Some(request)) = Message::request(&mut input, &mut output) else {
            return;
        };
        match exchange(state, &request, &mut input, &mut output) {
            Ok(Next::Request) => {}
            Ok(Next::Close) => return,
            // An upstream that fails is a connection that fails.
            Ok(Next::Reset) | Err(_) => return reset(&output),
        }
    }
}

/// What is closed after this is reset at the other end.
fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
}

fn exchange(state: &State, request: &Message, input: &mut impl Read, output: &mut TcpStream) -> Result<Next> {
    let operation = operation(request);
    let fault = state.fault(request, operation);
    let answer = answer(state, request, fault.as_ref());
    // Recorded before the client hears anything: whoever waited for an answer finds its request counted.
    state.record(Seen {
        operation,
        target: request.target().to_owned(),
        status: answer.as_ref().ok().and_then(|answer| answer.as_ref()?.status()),
        fault: fault.clone(),
        sent: request.body.len(),
        received: answer
            .as_ref()
            .map_or(0, |answer| answer.as_ref().map_or(0, |answer| answer.body.len())),
    });
    match answer? {
        Some(answer) => give(&answer, fault.as_ref(), input, output),
        None => Ok(Next::Reset),
    }
}

/// The answer that there is to give; `None` where the server never got the whole request.
fn answer(state: &State, request: &Message, fault: Option<&Fault>) -> Result<Option<Message>> {
    match fault {
        Some(Fault::Answer { status, code }) => Ok(Some(Message::failure(*status, code, request))),
        Some(Fault::ResetRequest) => {
            let mut upstream = state.connect()?;
            upstream.write_all(&first_half(request))?;
            reset(&upstream);
            Ok(None)
        }
        Some(Fault::Delay(pause)) => {
            std::thread::sleep(*pause);
            pass_on(state, request).map(Some)
        }
        _ => pass_on(state, request).map(Some),
    }
}

/// Over a connection of its own: one that was kept might be gone, and a request must never be sent twice by the proxy itself.
fn pass_on(state: &State, request: &Message) -> Result<Message> {
    let mut upstream = state.connect()?;
    upstream.set_nodelay(true)?;
    upstream.write_all(&request.bytes())?;
    Message::response(&mut BufReader::new(upstream), request)
}

fn give(answer: &Message, fault: Option<&Fault>, input: &mut impl Read, output: &mut TcpStream) -> Result<Next> {
    match fault {
        None | Some(Fault::Delay(_) | Fault::Answer { .. }) => {
            output.write_all(&answer.bytes())?;
            let is_last = answer
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            Ok(if is_last { Next::Close } else { Next::Request })
        }
        Some(Fault::ResetResponse) => {
            output.write_all(&first_half(answer))?;
            Ok(Next::Reset)
        }
        Some(Fault::TruncateResponse) => {
            output.write_all(&first_half(answer))?;
            Ok(Next::Close)
        }
        Some(Fault::LoseResponse | Fault::ResetRequest) => Ok(Next::Reset),
        Some(Fault::StallResponse) => {
            // Until the client closes or, against all custom, sends more.
            let _ = input.read(&mut [0]);
            Ok(Next::Reset)
        }
    }
}

/// The head and half of the body. Where there is no body, half of the first line: some clients take any longer part of a head for a whole
/// one.
fn first_half(message: &Message) -> Vec<u8> {
    let half = match message.body.len() {
        0 => message.head.iter().take_while(|byte| **byte != b'\r').count() / 2,
        length => message.head.len() + length / 2,
    };
    message.bytes()[..half].to_vec()
}
