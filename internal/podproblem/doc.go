// Package podproblem diagnoses pods. It finds the reason why a pod does not run in its status, in
// Events about it and in the last lines of its containers. It also finds what coderd's log reports
// about its database. EventTime, EventCount and CompareEvents read Events of both Event APIs, and JobEnd a Job.
//
// All functions are pure. A Problem contains the messages of Kubernetes unchanged. Sentence leaves
// out what changes from attempt to attempt, so that equal problems have equal sentences.
package podproblem
