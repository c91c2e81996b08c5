//! Times as people write them.

use std::time::Duration;

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
    match time.is_zero() {
        true => Err(wrong()),
        false => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
