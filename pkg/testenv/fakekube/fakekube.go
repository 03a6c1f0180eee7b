// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakekube is client-go's fake clientset for tests, without managed fields: fake.NewClientset builds a REST
// mapper of all types for each write, which takes a third of the time of a test. As with an API server, an object with
// a deletion timestamp gets no new finalizers, and is deleted with its last one.
package fakekube

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// A fake watch buffers this many unread changes, and panics at one more. With a fake clock, many changes can happen at
// once.
func init() { watch.DefaultChanSize = 10_000 }

// Clientset is a fake.Clientset with its own tracker.
type Clientset struct {
	*fake.Clientset
	tracker clienttesting.ObjectTracker
}

// Tracker returns the store of the objects.
func (c *Clientset) Tracker() clienttesting.ObjectTracker { return c.tracker }

// New returns a clientset with these objects. It panics for objects of unknown types and for duplicate names.
func New(objects ...runtime.Object) *Clientset {
	tracker := &versioned{
		ObjectTracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()),
	}
	for _, o := range objects {
		if err := tracker.Add(o); err != nil {
			panic(err)
		}
	}

	kube := fake.NewClientset() // with discovery
	kube.ReactionChain, kube.WatchReactionChain = nil, nil
	kube.AddReactor("update", "*", change(tracker))
	kube.AddReactor("patch", "*", change(tracker))
	kube.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	kube.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})

	return &Clientset{kube, tracker}
}

// versioned sets a new resource version when an object is written, as an API server does.
type versioned struct {
	clienttesting.ObjectTracker
	last atomic.Int64
}

// next returns a copy of an object with a new version.
func (v *versioned) next(obj runtime.Object) runtime.Object {
	if m, err := meta.Accessor(obj); err == nil && m != nil {
		obj = obj.DeepCopyObject()
		if m, err = meta.Accessor(obj); err == nil {
			m.SetResourceVersion(strconv.FormatInt(v.last.Add(1), 10))
		}
	}
	return obj
}

func (v *versioned) Add(obj runtime.Object) error { return v.ObjectTracker.Add(v.next(obj)) }

func (v *versioned) Create(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, o ...metav1.CreateOptions,
) error {
	return v.ObjectTracker.Create(gvr, v.next(obj), ns, o...)
}

func (v *versioned) Update(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, o ...metav1.UpdateOptions,
) error {
	return v.ObjectTracker.Update(gvr, v.next(obj), ns, o...)
}

func (v *versioned) Patch(
	gvr schema.GroupVersionResource, obj runtime.Object, ns string, o ...metav1.PatchOptions,
) error {
	return v.ObjectTracker.Patch(gvr, v.next(obj), ns, o...)
}

// change returns a reactor that changes objects like an API server. A patch may have preconditions: the object's UID
// and resource version. An object with a deletion timestamp gets no new finalizers, and is deleted once it has none.
func change(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	do := clienttesting.ObjectReaction(tracker)
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		resource := a.GetResource()
		object, was := before(tracker, a)
		if was == nil {
			return do(a)
		}

		if patch, ok := a.(clienttesting.PatchAction); ok {
			var want struct{ Metadata metav1.ObjectMeta }
			if json.Unmarshal(patch.GetPatch(), &want) == nil &&
				want.Metadata.UID != "" &&
				want.Metadata.UID != was.GetUID() {
				return true, nil, apierrors.NewConflict(resource.GroupResource(), was.GetName(),
					errors.New("the UID differs"))
			}

			if want.Metadata.ResourceVersion != "" && want.Metadata.ResourceVersion != was.GetResourceVersion() {
				return true, nil, apierrors.NewConflict(resource.GroupResource(), was.GetName(),
					errors.New("the version differs"))
			}
		}

		handled, changed, err := do(a)
		if stored, _ := before(tracker, a); err == nil && handled && stored != nil {
			changed = stored // with its new resource version
		}

		is, _ := meta.Accessor(changed)
		if err != nil || !handled || is == nil || is.GetDeletionTimestamp() == nil {
			return handled, changed, err
		}

		if was.GetDeletionTimestamp() != nil &&
			slices.ContainsFunc(is.GetFinalizers(), func(f string) bool {
				return !slices.Contains(was.GetFinalizers(), f)
			}) {
			_ = tracker.Update(resource, object, is.GetNamespace())
			return true, nil, apierrors.NewForbidden(resource.GroupResource(), is.GetName(), nil)
		}

		if len(is.GetFinalizers()) == 0 {
			err = tracker.Delete(resource, is.GetNamespace(), is.GetName())
		}

		return true, changed, err
	}
}

// before returns the object that an action changes, in its present state; nil if there is none.
func before(tracker clienttesting.ObjectTracker, a clienttesting.Action) (runtime.Object, metav1.Object) {
	name := ""
	if named, ok := a.(interface{ GetName() string }); ok {
		name = named.GetName()
	} else if update, ok := a.(clienttesting.UpdateAction); ok {
		if object, err := meta.Accessor(update.GetObject()); err == nil {
			name = object.GetName()
		}
	}
	object, err := tracker.Get(a.GetResource(), a.GetNamespace(), name)
	if err != nil {
		return nil, nil
	}
	was, _ := meta.Accessor(object)
	return object, was
}
