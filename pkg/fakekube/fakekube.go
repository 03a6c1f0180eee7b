// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fakekube is client-go's fake clientset for tests, without managed fields: fake.NewClientset builds a REST mapper of
// all types for each write, which takes a third of the time of a test.
package fakekube

import (
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
	kube.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	kube.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	return &Clientset{kube, tracker}
}
