// Package provisioner reconciles CoderProvisioner. From the spec it creates provisioner daemons
// that take jobs of a Coder with their own key, and reports progress and problems in the status.
//
// A pass is a list of steps over a scope. The steps of package framework create the objects. Before
// them, this package finds the control plane and manages the key (package keys). After them, it
// deletes replaced keys. As long as there is a key, a failure of Coder or of its license does not
// block changes of the spec: the pods follow the spec with the existing key.
//
// A deletion waits for running jobs. The Deployment is deleted first. Then the operator waits until
// the pods are gone, at most for their grace period. Then it deletes the keys in Coder. An
// unreachable Coder delays this for another minute. After that, an Event reports which key was left
// behind.
//
// Before an upgrade stops the pods of the control plane, it enters a phase in which its provisioners are held at 0 pods, until
// the new Coder responds, the upgrade is over, or a phase lasts longer than upgrade.LongestHold. This is decided in each pass from
// status.upgrade of the control plane, so nothing has to be undone.
//
// Invariants:
//
//   - A pass that changes nothing writes nothing. Coder is asked once an hour.
//   - If two CoderProvisioners want a key of the same name in the same organization, the
//     older one gets it. The operator does not call Coder for the other one.
//   - Nothing is sent to Coder if the spec provides the credentials of the daemons.
//   - No decision depends on a condition that an earlier pass wrote.
//   - Messages of conditions and Events contain no time, no generated name and no secret.
package provisioner
