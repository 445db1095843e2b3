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
//	  "capabilities": ["log"],
//	  "config": [
//	    {"key": "max_bytes", "type": "int", "default": 65536, "min": 0, "help": "Largest content in bytes."}
//	  ],
//	  "budgets": {"fuel": 100000, "memory_bytes": 8388608}
//	}
//
// Invariants:
//
//  1. Whatever the bytes, reading them takes bounded time and memory and does
//     not panic.
//  2. [Manifest.Resolve] returns a value for every setting, each within its
//     limits, or an error that names key, value and what is allowed.
//  3. Unknown fields of the JSON are ignored: fields can be added for years.
//
// Hosts and native tests use the package; guests do not import it.
package manifest
