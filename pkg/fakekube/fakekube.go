// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakekube is client-go's fake clientset for tests, without managed fields: fake.NewClientset builds a REST mapper of
// all types for each write, which takes a third of the time of a test. As on an API server, an object that is being deleted
// gets no new finalizer, and goes with its last one.
package fakekube

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// Clientset is a fake.Clientset with another tracker.
type Clientset struct {
	*fake.Clientset
	tracker clienttesting.ObjectTracker
}

// Tracker returns the store of the objects.
func (c *Clientset) Tracker() clienttesting.ObjectTracker { return c.tracker }

// New returns a clientset with these objects. It panics for objects of unknown types, and for two of one name.
func New(objects ...runtime.Object) *Clientset {
	tracker := clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
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

// change changes an object as an API server does if it is being deleted.
func change(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	do := clienttesting.ObjectReaction(tracker)
	return func(a clienttesting.Action) (bool, runtime.Object, error) {
		was := deleting(tracker, a)
		handled, object, err := do(a)
		if was == nil || err != nil || !handled {
			return handled, object, err
		}
		is, err := meta.Accessor(object)
		if err != nil {
			return handled, object, nil //nolint:nilerr // no object with metadata, such as a Scale
		}
		resource := a.GetResource()
		for _, f := range is.GetFinalizers() {
			if !slices.Contains(was.GetFinalizers(), f) {
				_ = tracker.Update(resource, was.(runtime.Object), is.GetNamespace()) //nolint:forcetypeassert // it came from the tracker
				return true, nil, apierrors.NewForbidden(resource.GroupResource(), is.GetName(), nil)
			}
		}
		if len(is.GetFinalizers()) == 0 && len(was.GetFinalizers()) > 0 {
			return true, object, tracker.Delete(resource, is.GetNamespace(), is.GetName())
		}
		return true, object, nil
	}
}

// deleting returns the object of an action if it is being deleted, else nil.
func deleting(tracker clienttesting.ObjectTracker, a clienttesting.Action) metav1.Object {
	named, ok := a.(interface{ GetName() string })
	name := ""
	if ok {
		name = named.GetName()
	} else if update, ok := a.(clienttesting.UpdateAction); ok {
		if object, err := meta.Accessor(update.GetObject()); err == nil {
			name = object.GetName()
		}
	}
	object, err := tracker.Get(a.GetResource(), a.GetNamespace(), name)
	if err != nil {
		return nil
	}
	was, err := meta.Accessor(object)
	if err != nil || was.GetDeletionTimestamp() == nil {
		return nil
	}
	return was
}
