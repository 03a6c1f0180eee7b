// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider/failover"
	"github.com/csccm/csccm/pkg/seal"
)

// recordsCache keeps the annotations that the controller itself writes apart from the framework's cache of Services.
//
// The framework syncs a Service at once when any annotation changed, whatever back-off it is in. Every attempt to
// acquire an address writes a record, so a Service that cannot get one would sync again without end. The informer's
// transform therefore takes these annotations out of the cached object, and restore puts them back into the copy that
// is worked on. The transform runs before the object reaches the informer's store, so what is kept here is never older
// than the cached Service. The framework's own patches (finalizer, status) are differences of two copies that both
// lack the annotations: they do not touch them.
type recordsCache struct {
	mu    sync.Mutex
	byUID map[types.UID]map[string]string
	// changed is called when the records of a Service have changed. It must not block. It is set before the informer starts.
	changed func(types.UID)
}

func newRecordsCache() *recordsCache {
	return &recordsCache{byUID: map[types.UID]map[string]string{}, changed: func(types.UID) {}}
}

// strip is the transform of the Services informer; see also cachedNode. The framework promises to call it once for each object that it
// received, before anybody else sees the object.
func (c *recordsCache) strip(obj any) (any, error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return obj, nil
	}
	taken := controllerAnnotations(svc)
	c.mu.Lock()
	last := c.byUID[svc.UID]
	if len(taken) == 0 {
		delete(c.byUID, svc.UID)
	} else {
		c.byUID[svc.UID] = taken
	}
	c.mu.Unlock()
	if len(taken) > 0 || svc.Annotations != nil && len(svc.Annotations) == 0 {
		// A copy: a fake API server hands out the objects that it keeps.
		svc = svc.DeepCopy()
		for name := range taken {
			delete(svc.Annotations, name)
		}
		if len(svc.Annotations) == 0 {
			svc.Annotations = nil // none are not always the same, and to the framework a difference is a change
		}
	}
	if svc.ManagedFields != nil {
		unmanaged := *svc
		unmanaged.ManagedFields = nil
		svc = &unmanaged
	}
	if !maps.Equal(last, taken) {
		c.changed(svc.UID)
	}
	return svc, nil
}

// restore returns the Service with the annotations that strip took out. One that has some was not stripped, and is
// returned unchanged.
func (c *recordsCache) restore(svc *corev1.Service) *corev1.Service {
	if len(controllerAnnotations(svc)) > 0 {
		return svc
	}
	c.mu.Lock()
	kept := c.byUID[svc.UID] // never changed in place
	c.mu.Unlock()
	if len(kept) == 0 {
		return svc
	}
	svc = svc.DeepCopy()
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	maps.Copy(svc.Annotations, kept)
	return svc
}

func (c *recordsCache) drop(uid types.UID) {
	c.mu.Lock()
	delete(c.byUID, uid)
	c.mu.Unlock()
}

// controllerAnnotations returns the annotations that only the controller writes.
func controllerAnnotations(svc *corev1.Service) map[string]string {
	out := map[string]string{}
	for name, value := range svc.Annotations {
		if annotation.WrittenByController(name) {
			out[name] = value
		}
	}
	return out
}

// followServices prepares the framework's Services informer, before it starts. It is called when the service
// controller asks for the load balancer, not in SetInformers: without that controller the role may not read Services.
func (p *Provider) followServices(factory informers.SharedInformerFactory) {
	var services coreinformers.ServiceInformer = factory.Core().V1().Services()
	informer := services.Informer()
	p.serviceCache.Store(&services)
	if err := informer.SetTransform(p.records.strip); err != nil {
		klog.ErrorS(err, "The records of Services stay in the framework's cache: each of them makes it sync once more")
		return
	}
	lb := p.lb
	gone := func(uid types.UID) {
		p.records.drop(uid)
		lb.drop(uid)
	}
	p.records.changed = lb.recordsChanged
	// The framework syncs no Service when a Node gets or loses a label that the framework itself does not use, nor when it
	// gets or loses readiness or a taint.
	_, _ = factory.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { lb.fitnessChanged() },
		UpdateFunc: func(old, now any) {
			was, is := old.(*corev1.Node), now.(*corev1.Node) //nolint:forcetypeassert // it is the informer of Nodes
			lb.labelsChanged(was.Labels, is.Labels)
			lb.leavingChanged(was, is)
			if failover.Fitness(was).Cause != failover.Fitness(is).Cause {
				lb.fitnessChanged()
			}
		},
		DeleteFunc: func(any) { lb.fitnessChanged() },
	})
	// The only error is that of a stopped informer, and this one has not started.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, now any) {
			was, is := serviceOf(old), serviceOf(now)
			if was != nil && is != nil && was.UID != is.UID { // deleted and created again while nobody watched
				gone(was.UID)
			}
		},
		DeleteFunc: func(obj any) {
			if svc := serviceOf(obj); svc != nil {
				gone(svc.UID)
			}
		},
	})
}

func serviceOf(obj any) *corev1.Service {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	svc, _ := obj.(*corev1.Service)
	return svc
}

// recordStore keeps records in the annotations of one Service.
type recordStore struct {
	kube            kubernetes.Interface
	namespace, name string
	uid             types.UID
}

// Load reads the Service from the API server. It fails when the Service is gone,
// going, or another one of the same name: nothing may be acquired for it then.
func (s *recordStore) Load(ctx context.Context) (annotation.Records, error) {
	svc, err := s.kube.CoreV1().Services(s.namespace).Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case err != nil:
		return annotation.Records{}, err
	case svc.UID != s.uid:
		return annotation.Records{}, fmt.Errorf("service %s/%s is not the one it was", s.namespace, s.name)
	case svc.DeletionTimestamp != nil:
		return annotation.Records{}, fmt.Errorf("service %s/%s is being deleted", s.namespace, s.name)
	}
	return annotation.ParseRecords(svc.Annotations)
}

// Save patches the annotations. The UID in the patch makes the API server
// refuse it for another Service of the same name.
func (s *recordStore) Save(ctx context.Context, r annotation.Records) error {
	annotations := map[string]any{}
	for name, value := range r.Values() {
		if annotations[name] = value; value == "" {
			annotations[name] = nil
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": s.uid, "annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = s.kube.CoreV1().Services(s.namespace).Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) && r.Empty() {
		return nil // gone, and nothing to remember
	}
	return err
}

// recordKeys are the keys that sign and check the records on Services: that of the secret key in use, then those of
// earlier ones, by which records are recognised until they are signed again.
type recordKeys struct {
	mu   sync.Mutex
	keys []string
}

// use makes the key of a configuration the current one.
func (k *recordKeys) use(cfg *cloudstack.Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = seal.Keys(cfg.SecretKey, append([]string{cfg.PreviousRecordKey}, k.keys...)...)
}

func (k *recordKeys) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.keys)
}
