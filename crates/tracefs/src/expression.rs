//! Constant integer expressions in a format's `print fmt` line. The kernel prints its C source
//! there, so a flag's value can look like `(((0x01 | 0x02) + 1) << 1)`. Knows nothing of fields or
//! events.

/// The value of a constant expression; `None` if it contains names, casts or anything but integers
/// and `| ^ & << >> + - * ~ ( )`. Arithmetic wraps at 64 bits.
pub(crate) fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text.trim_start(), depth: 0 };
    let value = parser.binary(0)?;
    parser.rest.is_empty().then_some(value)
}

/// The deepest nesting. No kernel nests this deep.
const DEEPEST: u32 = 64;

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

/// Binary operators with C's precedence, lowest first. Longer operators come before their prefixes.
const OPERATORS: [(&str, u32); 8] =
    [("<<", 4), (">>", 4), ("|", 1), ("^", 2), ("&", 3), ("+", 5), ("-", 5), ("*", 6)];

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn binary(&mut self, tightest: u32) -> Option<u64> {
        let mut left = self.unary()?;
        while let Some(&(operator, precedence)) =
            OPERATORS.iter().find(|(operator, _)| self.rest.starts_with(operator))
        {
            if precedence <= tightest {
                break;
            }
            self.take(operator);
            let right = self.binary(precedence)?;
            left = match operator {
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "<<" => left.checked_shl(u32::try_from(right).ok()?)?,
                ">>" => left.checked_shr(u32::try_from(right).ok()?)?,
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                _ => left.wrapping_mul(right),
            };
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<u64> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = if self.take("~") {
            !self.unary()?
        } else if self.take("-") {
            self.unary()?.wrapping_neg()
        } else if self.take("(") {
            let value = self.binary(0)?;
            if !self.take(")") {
                return None;
            }
            value
        } else {
            self.number()?
        };
        self.depth -= 1;
        Some(value)
    }

    fn number(&mut self) -> Option<u64> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok(),
            None => digits.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_expressions_have_cs_values() {
        for (text, value) in [
            ("2048", 2048),
            ("0x10UL", 16),
            ("(((0x00 | 0x01 | 0x02 | 0x40) + 1) << 1)", 0x88),
            ("1 << 2 | 1", 5),
            ("6 - 2 - 1", 3),
            ("2 + 3 * 4 & 7", 6),
            ("~0 >> 60", 15),
            ("-1 & 0xff", 255),
            ("017", 15),
        ] {
            assert_eq!(evaluate(text), Some(value), "{text}");
        }
    }

    #[test]
    fn names_casts_and_endless_nesting_have_no_value() {
        for text in
            ["", "TASK_STATE_MAX", "(int)1", "1 +", "(1", "1 << 64", "1)", "9x", "0xfffffffffffffffff"]
        {
            assert_eq!(evaluate(text), None, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
    }
}
