package policy

// Policy decides which events a relay accepts.
type Policy interface {
	// Configure is called once, before the first Admit. An error refuses the
	// configuration: it should name the key and the value.
	Configure(cfg Config) error

	// Admit decides about one event, whose id and signature are right. It is
	// never called twice at the same time, but a relay runs several copies of
	// the module: do not count on seeing every event.
	Admit(in Input) Verdict
}

// Func is a policy without configuration.
type Func func(in Input) Verdict

func (f Func) Configure(Config) error { return nil }

func (f Func) Admit(in Input) Verdict { return f(in) }

// Registration is the result of [Register]; it has no meaning.
type Registration struct{}
