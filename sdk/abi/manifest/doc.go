// Package manifest reads what a module says about itself, without running it,
// and checks an operator's configuration against it.
//
// A manifest is a JSON object whose first key is "talon_manifest", somewhere in
// the module's data segments: any language puts it there with a constant.
//
//	{
//	  "talon_manifest": 1,
//	  "name": "sizes",
//	  "version": "1.0.0",
//	  "summary": "Refuses large events.",
//	  "worlds": ["policy"],
//	  "functions": ["admit", "query"],
//	  "place": 60,
//	  "capabilities": ["log"],
//	  "config": [
//	    {"key": "max_bytes", "type": "int", "default": 65536, "min": 0, "help": "Largest content in bytes."}
//	  ],
//	  "budgets": {"fuel": 100000, "memory_bytes": 8388608},
//	  "vectors": [
//	    {
//	      "name": "a large note", "function": "admit", "config": {"max_bytes": 3}, "event": {"kind": 1, "content": "four"},
//	      "want": {"action": "reject", "rule": "too-large", "reason": "blocked: the content is too large"}
//	    }
//	  ]
//	}
//
// "functions" is the list of what the host calls, only "admit" where it is
// absent. A toolchain may export more than a module implements: sdk/policy always
// exports all four functions of a policy, and a call that only says "pass" still
// takes a microsecond.
//
// "vectors" are tests that a host runs before the module decides about anything,
// and that the author runs with go test: see [Vector]. Policies and throttles have
// them.
//
// Invariants:
//
//  1. Whatever the bytes, reading them takes bounded time and memory and does
//     not panic.
//  2. [Manifest.Resolve] returns a value for every setting, each within its
//     limits, or an error that names key, value and what is allowed.
//  3. Unknown fields of the JSON are ignored: fields can be added for years. But not
//     those of a throttle's vectors, about which this host could not ask.
//  4. The vectors of a parsed manifest can be encoded, and their configuration
//     resolves.
//
// Hosts and native tests use the package; guests do not import it.
package manifest
