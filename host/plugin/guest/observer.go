package guest

// Observer is an optional interface of the facts of a decision. It records the further
// answers that the module got. The goroutine of the decision calls it.
type Observer interface {
	// Contained records the answer about a member of a set. The slices are valid
	// during the call.
	Contained(name, member []byte, yes, known bool)

	// Used records that the module used a capability whose answer is not in the
	// facts: it depends on repositories, or on what the module remembers.
	Used(capability string)
}

// reportUse reports to the witness, if there is one, that a capability is used.
func (c *call) reportUse(capability string) {
	if w, ok := c.facts.(Observer); ok {
		w.Used(capability)
	}
}
