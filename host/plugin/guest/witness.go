package guest

// Witness is what the facts of a decision may be, too: it is told what the module
// asked beside them. It is told by the goroutine of the decision.
type Witness interface {
	// Contained says what was answered about a member of a set. The slices are valid
	// during the call.
	Contained(name, member []byte, yes, known bool)

	// Used says that the module used a capability whose answer is in no facts: it
	// rests on repositories, or on what the module remembers.
	Used(capability string)
}

// tell tells the witness, if there is one, that a capability is used.
func (c *call) tell(capability string) {
	if w, ok := c.facts.(Witness); ok {
		w.Used(capability)
	}
}
