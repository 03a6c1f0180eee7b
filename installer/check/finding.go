// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/report"
)

// Outcome is the result of a check.
type Outcome string

// Outcomes.
const (
	OK      Outcome = "ok"
	Warning Outcome = "warning"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // does not apply, or a check that it needs did not pass
	Unknown Outcome = "unknown" // could not be found out
)

// Object is an object with a problem.
type Object struct {
	Kind      string `json:"kind"` // Node, Service, LoadBalancerRule ...
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Message says what is wrong with this object.
	Message string `json:"message,omitempty"`
}

// Objects are the objects of a finding.
type Objects []Object

// addf adds an object without a namespace, with its problem.
func (o *Objects) addf(kind, name, format string, args ...any) {
	*o = append(*o, objectf(kind, "", name, format, args...))
}

// aboutf adds a Kubernetes object, with its problem.
func (o *Objects) aboutf(kind string, x metav1.Object, format string, args ...any) {
	*o = append(*o, objectf(kind, x.GetNamespace(), x.GetName(), format, args...))
}

// objectf returns an object with its problem.
func objectf(kind, namespace, name, format string, args ...any) Object {
	return Object{Kind: kind, Namespace: namespace, Name: name, Message: fmt.Sprintf(format, args...)}
}

// about returns the objects of a list for which say returns a problem.
func about[T any, P interface {
	*T
	metav1.Object
}](kind string, list []T, say func(P) string) Objects {
	var out Objects
	for i := range list {
		if text := say(&list[i]); text != "" {
			out.aboutf(kind, P(&list[i]), "%s", text)
		}
	}
	return out
}

// count returns a number with its noun.
var count = report.Count

// listed returns names separated by commas.
func listed(names []string) string { return strings.Join(names, ", ") }

// when returns the formatted text if so is true; otherwise "".
func when(so bool, format string, args ...any) string {
	if so {
		return fmt.Sprintf(format, args...)
	}
	return ""
}

// Find returns the first element of a list for which wanted returns true; nil if there is none.
func Find[T any](list []T, wanted func(*T) bool) *T {
	for i := range list {
		if wanted(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// without returns a list without the elements for which excluded returns true.
func without[T any](list []T, excluded func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), excluded)
}

// String returns kind and name.
func (o Object) String() string {
	if o.Namespace != "" {
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}

// Finding is the decision of a check.
type Finding struct {
	Outcome Outcome `json:"result"`
	// Message is one sentence without a full stop: what was found, or why it was skipped.
	Message string `json:"message"`
	// Objects are the objects with a problem.
	Objects Objects `json:"objects"`
	// Evidence is the basis of the decision, by name.
	Evidence map[string]string `json:"evidence"`
	// Remedy replaces the check's own if the finding has a better one. In a Result it is set if the outcome is warning,
	// failed or unknown.
	Remedy string `json:"remedy,omitempty"`
	// Unfinished is true if the run ended before the check. In JSON the outcome is then unknown; text output shows only
	// how many checks are unfinished.
	Unfinished bool `json:"-"`
}

// Passf returns a finding with the outcome OK.
func Passf(format string, args ...any) Finding { return Problemf(format, args...).as(OK) }

// Problemf returns a finding whose outcome follows from the severity of the check.
func Problemf(format string, args ...any) Finding {
	return Finding{Message: fmt.Sprintf(format, args...)}
}

// Warnf returns a warning, whatever the severity of the check.
func Warnf(format string, args ...any) Finding { return Problemf(format, args...).as(Warning) }

// Skipf returns the finding of a check that does not apply.
func Skipf(format string, args ...any) Finding { return Problemf(format, args...).as(Skipped) }

// Unknownf returns the finding of a check that cannot decide.
func Unknownf(format string, args ...any) Finding { return Problemf(format, args...).as(Unknown) }

func (f Finding) as(o Outcome) Finding {
	f.Outcome = o
	return f
}

// Unless returns f if there are no objects, and otherwise a problem with these objects. format has one verb, which gets
// their number with the noun.
func (f Finding) Unless(objects Objects, noun, format string) Finding {
	if len(objects) == 0 {
		return f
	}
	return Problemf(format, count(len(objects), noun)).About(objects...)
}

// About adds objects with a problem.
func (f Finding) About(objects ...Object) Finding {
	f.Objects = append(f.Objects, objects...)
	return f
}

// Fix replaces the check's own remedy.
func (f Finding) Fix(format string, args ...any) Finding {
	f.Remedy = fmt.Sprintf(format, args...)
	return f
}

// With adds evidence.
func (f Finding) With(key, value string) Finding {
	if f.Evidence == nil {
		f.Evidence = map[string]string{}
	}
	f.Evidence[key] = value
	return f
}

// UnreadError means that a fact could not be read.
type UnreadError struct {
	Noun string
	Err  error
}

func (e *UnreadError) Error() string { return fmt.Sprintf("%s could not be read: %v", e.Noun, e.Err) }

func (e *UnreadError) Unwrap() error { return e.Err }

// Cause returns err without the noun, for a check that is only about this fact.
func Cause(err error) error {
	if e, is := errors.AsType[*UnreadError](err); is {
		return e.Err
	}
	return err
}

// Unread returns the finding for a fact that could not be read.
func Unread(err error) Finding {
	return Unknownf("%v", err).Fix("%s", cmp.Or(report.RemedyOf(err), credentials.Remedy(err)))
}

// broken returns the finding that something does not work at all.
func broken(err error) Finding { return Problemf("%v", Cause(err)).Fix("%s", report.RemedyOf(err)) }

// Commands for remedies; a result has the names of the run in them.
const (
	showLog = "kubectl -n NAMESPACE logs -l app.kubernetes.io/instance=RELEASE --tail=-1"
	restart = "kubectl -n NAMESPACE rollout restart deployment,daemonset -l app.kubernetes.io/instance=RELEASE"
)
