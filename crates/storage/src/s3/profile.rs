//! The shared credentials file: `[name]`, then `aws_access_key_id = …` and its like.

use object_store::aws::AwsCredential;

/// Returns the keys of profile `name`; `None` if it does not have both.
pub(super) fn read_credential(text: &str, name: &str) -> Option<AwsCredential> {
    let mut is_ours = false;
    let (mut key, mut secret, mut token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            is_ours = section_name(section) == name;
        } else if let Some((field, value)) = line.split_once('=').filter(|_| is_ours) {
            let value = Some(value.trim().to_owned());
            match field.trim().to_ascii_lowercase().as_str() {
                "aws_access_key_id" => key = value,
                "aws_secret_access_key" => secret = value,
                "aws_session_token" => token = value,
                _ => {}
            }
        }
    }
    Some(AwsCredential {
        key_id: key?,
        secret_key: secret?,
        token,
    })
}

/// In the configuration file a section is `profile name`, in the credentials file just the name.
fn section_name(section: &str) -> &str {
    let section = section.trim();
    section.strip_prefix("profile ").map_or(section, str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# comment
[default]
aws_access_key_id = A
aws_secret_access_key=B

[profile work]
AWS_ACCESS_KEY_ID = C
aws_secret_access_key = D=
aws_session_token = E
[half]
aws_access_key_id = F
";

    fn found(name: &str) -> Option<(String, String, Option<String>)> {
        read_credential(FILE, name).map(|found| (found.key_id, found.secret_key, found.token))
    }

    #[test]
    fn each_profile_has_its_own_keys() {
        assert_eq!(found("default"), Some(("A".into(), "B".into(), None)));
        assert_eq!(found("work"), Some(("C".into(), "D=".into(), Some("E".into()))));
    }

    #[test]
    fn half_a_pair_or_no_profile_is_none() {
        assert_eq!(found("half"), None);
        assert_eq!(found("missing"), None);
    }
}
