//! Times as people write and read them.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::output::Format;

/// The time zone in which times are shown; not set if they are shown as they are stored.
static ZONE: OnceLock<TimeZone> = OnceLock::new();

/// Shows times in the time zone of this machine if a person reads them: as text on a terminal.
pub(crate) fn use_local_zone(format: Format) {
    if format == Format::Text && std::io::stdout().is_terminal() {
        let _ = ZONE.set(TimeZone::system());
    }
}

/// Formats a time in RFC 3339 for the reader of this run.
pub(crate) fn format_time(time: &str) -> String {
    match ZONE.get() {
        Some(zone) => format_in_zone(time, zone),
        None => time.to_owned(),
    }
}

/// Formats a time in RFC 3339 as the clocks of a time zone show it. The offset makes it a point that commands take.
fn format_in_zone(time: &str, zone: &TimeZone) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string(),
        // A missing time is given as `-`.
        Err(_) => time.to_owned(),
    }
}

/// Reads `500ms`, `2s`, `1.5m`, `1h`, or a bare number of seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || "use a time such as 500ms, 2s, 5m or 1h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => number / 1_000.0,
        "" | "s" => number,
        "m" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(wrong()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_as_the_clocks_of_a_zone_show_it() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(
            format_in_zone("2026-11-15T23:30:00.123456Z", &zone),
            "2026-11-16 01:30:00+02:00"
        );
        assert_eq!(format_in_zone("-", &zone), "-");
        let shown: Timestamp = format_in_zone("2026-11-15T23:30:00Z", &zone).parse().unwrap();
        assert_eq!(shown.to_string(), "2026-11-15T23:30:00Z");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "-1s", "0", "2d", "inf", "nan", "1e999s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
