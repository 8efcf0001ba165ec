// Package provisioner reconciles CoderProvisioner: from the spec to daemons that
// take jobs of a Coder, with a key of their own, and to a status that says how far
// that is and what is in the way.
//
// A pass is a list of steps over a scope. Those of package workload make the
// objects; in front of them this package finds the control plane and looks after
// the key (package keys), and behind them it deletes what was replaced. Trouble
// with Coder or with a license never stops an edit of the spec as long as there is
// a key: the pods follow the spec with the key that they have.
//
// A deletion lets jobs finish: the Deployment goes first, then what is left of the
// grace period is waited for, then the keys are deleted in Coder. A Coder that does
// not answer delays that for a minute more, and then an Event says which key was
// left behind.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing, and asks Coder once an hour.
//   - Of two CoderProvisioners that want a key of the same name in the same
//     organization, the older one has it. The other one asks Coder nothing.
//   - Nothing is sent to Coder for daemons that log in with what the spec names.
//   - Nothing is decided from a condition that an earlier pass wrote.
//   - Texts in conditions and Events hold no time, no generated name and no secret.
package provisioner
