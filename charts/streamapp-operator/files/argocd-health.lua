-- SPDX-License-Identifier: Apache-2.0
-- The health of a StreamApp, as Argo CD asks for it. docs/kubernetes/gitops.md says where to put it.
local function answer(status, message)
  return { status = status, message = message }
end

if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "the app is deleted")
end
local status = obj.status or {}
if status.observedGeneration == nil or status.observedGeneration < obj.metadata.generation then
  return answer("Progressing", "the operator has not seen this generation yet")
end
local found = {}
for _, condition in ipairs(status.conditions or {}) do
  found[condition.type] = condition
end
local function holds(kind)
  return found[kind] ~= nil and found[kind].status == "True"
end

if holds("Stalled") then
  return answer("Degraded", found.Stalled.message)
end
if holds("Paused") and found.Paused.reason == "ReconciliationPaused" then
  return answer("Suspended", found.Paused.message)
end
if status.phase == "Suspended" then
  return answer("Suspended", "spec.suspend is true")
end
if holds("Degraded") then
  return answer("Degraded", found.Degraded.message)
end
if holds("Reconciling") then
  return answer("Progressing", found.Reconciling.message)
end
if holds("Ready") or status.phase == "Completed" or status.phase == "Scheduled" then
  return answer("Healthy", found.Ready.message)
end
return answer("Progressing", found.Ready ~= nil and found.Ready.message or "nothing is known yet")
