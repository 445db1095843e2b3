package manifest

import (
	"slices"

	"talon/sdk/abi"
)

// answers are the actions that make sense for each function of the policy world.
var answers = map[string][]uint32{
	"admit":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionHold, abi.ActionRequireAuth},
	"query":   {abi.ActionPass, abi.ActionAccept, abi.ActionReject, abi.ActionShadowReject, abi.ActionRequireAuth},
	"connect": {abi.ActionPass, abi.ActionAccept, abi.ActionReject},
	"push":    {abi.ActionPass, abi.ActionAccept, abi.ActionReject},
}

// MayAnswer reports whether a function of the policy world may answer with an
// action: only an event can be held, and only a client that sends events or
// queries can be asked to authenticate.
func MayAnswer(function string, action uint32) bool {
	return slices.Contains(answers[function], action)
}

// ActionName returns an action's name as a vector has it.
func ActionName(action uint32) string {
	if action < uint32(len(actionNames)) {
		return actionNames[action]
	}
	return "an unknown action"
}
