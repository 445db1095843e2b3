package config

// Change is an option that has another value than before.
type Change struct {
	Option  string `json:"option"`
	From    string `json:"from"`
	To      string `json:"to"`
	Applied bool   `json:"applied"` // false: it needs a restart
}

// applicable are the options that a running server takes over.
var applicable = map[string]bool{"log-level": true, "min-free": true}

// hidden is shown in place of a value that may have a password.
const hidden = "(not shown)"

// Changes lists the options that differ between two configurations.
func (c *Config) Changes(to *Config) (list []Change) {
	after := to.options()
	for i, o := range c.options() {
		a, b := o.value.get(), after[i].value.get()
		if a == b {
			continue
		}
		if o.name == "store" {
			a, b = hidden, hidden
		}
		list = append(list, Change{o.name, a, b, applicable[o.name]})
	}
	return list
}
