//! The smallest useful policy: it refuses notes that shout, and has no opinion about
//! anything else.

use talon::{Admit, Config, Policy, Verdict, WrongValue};

struct Hello {
    most: i64,
}

impl Policy for Hello {
    fn configure(config: &Config) -> Result<Self, WrongValue> {
        Ok(Hello {
            most: config.int("max_capitals"),
        })
    }

    fn admit(&mut self, input: &Admit) -> Verdict {
        let event = input.event();
        if event.kind() != 1 {
            return Verdict::pass();
        }
        let mut row = 0;
        for c in event.content_bytes() {
            match c {
                b'A'..=b'Z' => row += 1,
                b'a'..=b'z' => row = 0,
                _ => {}
            }
            if row > self.most {
                return Verdict::reject("blocked", "please do not shout").by("shouting");
            }
        }
        Verdict::pass()
    }
}

talon::policy!(Hello, include_bytes!("../manifest.json"));
