// The page of a review: shows one item, collects the answer by keys or buttons, sends it, and shows
// what the server gives next once that answer is on the disk.
'use strict';

const LABEL = [['1', 'correct', 'correct'], ['2', 'incorrect', 'wrong'], ['3', 'unsure', 'unsure']];
const SIMILAR = [['s', 'similar', 'similar'], ['d', 'dissimilar', 'dissimilar'],
                 ['u', 'unsure', 'unsure']];
const REASON_KEYS = {motion: 'm', background: 'b', blur: 'l', other: 'o'};
const FLICKER_MS = 400; // slower than three flashes a second

const by = (id) => document.getElementById(id);
let session = null;
let annotator = null;
let item = null; // what is judged, as the server gave it; null before and after
let answer = null; // what is marked so far
let busy = false;
let flickering = null;
let hinted = false; // whether the message says what the answer lacks

async function ask(path, body) {
  const options = body === undefined ? {} :
    {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)};
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error('The server does not answer: start it again, then repeat the last key. ' +
                    'What was shown as saved is on the disk.');
  }
  const value = await response.json();
  if (!response.ok) throw Object.assign(new Error(value.error), {status: response.status});
  return value;
}

// Runs one exchange with the server at a time and shows what went wrong, or the action's warning.
async function exchange(action) {
  if (busy) return;
  busy = true;
  document.body.dataset.busy = 'true';
  try {
    hinted = false;
    by('error').textContent = await action() || '';
  } catch (error) {
    by('error').textContent = error.message;
  } finally {
    busy = false;
    document.body.dataset.busy = 'false';
  }
}

function query(extra) {
  return new URLSearchParams({annotator, ...extra}).toString();
}

function next() {
  return exchange(async () => show(await ask(`/api/next?${query()}`)));
}

function back() {
  const shown = item ? {before: item.id, round: item.round} : {};
  return exchange(async () => show(await ask(`/api/back?${query(shown)}`)));
}

function save() {
  if (!isComplete()) return hint();
  const said = {annotator, item: item.id, round: item.round, label: answer.label,
                replaces: item.answered};
  if (item.kind === 'pair' && !answer.bad) {
    Object.assign(said, {similar: answer.similar, reasons: answer.reasons,
                         feature: answer.feature, shown: item.labels.map(({id}) => id)});
  } else if (item.kind === 'pair') {
    Object.assign(said, {item: item.anchor_item, label: 'incorrect',
                         round: item.anchor_round, replaces: item.anchor_answered});
  } else {
    said.added = answer.added;
  }
  return exchange(() => send(said));
}

// Sends an answer; if it is outdated, shows what is next and says so.
async function send(said) {
  try {
    return await show(await ask('/api/answer', said));
  } catch (error) {
    if (error.status !== 409) throw error;
    await show(await ask(`/api/next?${query()}`));
    return error.message;
  }
}

// Says what an answer lacks before it can be saved.
function hint() {
  const lacking = [];
  if (answer.label === null) lacking.push('whether the label is correct (1, 2, 3)');
  if (item.kind === 'pair' && answer.similar === null) {
    lacking.push('whether the pair is similar (S, D, U)');
  }
  if (item.kind === 'pair' && answer.similar === 'dissimilar' && !answer.reasons.length &&
      !answer.feature) {
    lacking.push('what changed (M, B, L, O) or that a feature is in only one (F)');
  }
  by('error').textContent = `Not saved. Say ${lacking.join(', and ')}.`;
  hinted = true;
}

function isComplete() {
  if (!item) return false;
  if (item.kind === 'anchor') return answer.label !== null;
  if (answer.bad) return true;
  if (answer.label === null || answer.similar === null) return false;
  return answer.similar !== 'dissimilar' || answer.reasons.length > 0 || answer.feature;
}

// ---- what is shown

// Shows an item, or that none is left; returns a warning if a frame cannot be painted.
async function show(turn) {
  stopFlicker();
  const warning = turn.item ? await load(turn.item) : '';
  item = turn.item;
  showProgress(turn.progress);
  by('name').hidden = true;
  by('work').hidden = !item;
  by('done').hidden = Boolean(item);
  document.body.dataset.item = item ? item.id : 'none';
  by('steps').hidden = !item;
  if (!item) { showDone(turn.progress); return ''; }
  const given = item.answer || {};
  answer = {label: given.label || null, similar: given.similar || null, bad: false,
            reasons: [...(given.reasons || [])], feature: Boolean(given.feature),
            added: [...(given.added || [])]};
  by('round').textContent = item.round === 'joint' ? 'joint round' : 'individual round';
  by('round').className = item.round;
  by('stage').classList.toggle('single', item.kind === 'anchor');
  caption('left', 'anchor', item.anchor);
  if (item.neighbor) {
    caption('right', `neighbor, ${item.offset > 0 ? '+' : ''}${item.offset}`, item.neighbor);
  }
  showLabels();
  showOthers();
  scale();
  by('classes').hidden = item.kind !== 'anchor';
  by('filter').value = '';
  draw();
  return warning;
}

// Waits until the frames can be painted, so that both appear together.
async function load(shown) {
  const sources = [['left', shown.anchor], ['right', shown.neighbor]];
  const warnings = await Promise.all(sources.filter(([, frame]) => frame).map(
    async ([side, frame]) => {
      const image = by(side).querySelector('img');
      image.src = frame.url;
      const damage = frame.damage ?
        `${frame.path} is damaged (${frame.damage}): what is missing is blank.` : '';
      return image.decode().then(() => damage,
                                 () => `${frame.path} cannot be shown: is it whole?`);
    }));
  return warnings.filter(Boolean).join(' ');
}

function caption(side, role, frame) {
  by(side).querySelector('figcaption').textContent = `${role}: ${frame.path}`;
}

function names(classes) {
  return classes.map(({name}) => name).join(', ');
}

function showLabels() {
  const line = by('labels');
  line.replaceChildren('label: ');
  const bold = document.createElement('b');
  bold.textContent = names(item.labels);
  line.append(bold);
  if (item.neighbor_labels) line.append(` (the neighbor's own: ${names(item.neighbor_labels)})`);
}

function showOthers() {
  const className = new Map(session.classes.map(({id, name}) => [id, name]));
  by('others').replaceChildren(...item.others.map((other) => {
    const parts = [`label ${other.label}`, other.similar, ...other.reasons,
                   other.feature ? 'feature in only one' : null,
                   ...other.added.map((id) => `also ${className.get(id)}`)];
    const line = document.createElement('li');
    line.textContent = `${other.annotator} (${other.round}): ${parts.filter(Boolean).join(', ')}`;
    return line;
  }));
}

function showProgress(progress) {
  const joint = item && item.round === 'joint';
  by('who').textContent = `${annotator}: ${progress.own} answers`;
  by('progress').textContent = `answers of all: individual ${progress.individual} of ${progress.individual_of}` +
    ` · joint ${progress.joint} of ${progress.joint_of}`;
  by('bar').max = Math.max(1, joint ? progress.joint_of : progress.individual_of);
  by('bar').value = joint ? progress.joint : progress.individual;
}

function showDone(progress) {
  const open = progress.individual < progress.individual_of || progress.joint < progress.joint_of;
  by('round').textContent = '';
  by('verdict').textContent = open ?
    'Nothing for you just now: other annotators have not finished their part.' :
    'All done. Thank you.';
}

// Gives both frames the same scale: the largest at which both fit.
function scale() {
  const frames = [...document.querySelectorAll('#stage img')].filter(
    (image, index) => index === 0 || item.neighbor);
  const together = flickering === null && frames.length > 1;
  const width = (by('stage').clientWidth - 8) / (together ? 2 : 1);
  const height = Math.max(160, window.innerHeight * (item.kind === 'pair' ? 0.6 : 0.45));
  const factor = Math.min(4, ...frames.map((image) =>
    Math.min(width / (image.naturalWidth || width), height / (image.naturalHeight || height))));
  for (const image of frames) {
    image.width = Math.round(image.naturalWidth * factor);
    image.height = Math.round(image.naturalHeight * factor);
  }
}

function flicker() {
  if (flickering !== null || !item || item.kind !== 'pair') {
    stopFlicker();
  } else {
    by('stage').classList.add('flicker');
    let second = false;
    const swap = () => {
      by('left').classList.toggle('hid', second);
      by('right').classList.toggle('hid', !second);
      second = !second;
    };
    swap();
    flickering = setInterval(swap, FLICKER_MS);
  }
  if (item) { scale(); draw(); }
}

function stopFlicker() {
  clearInterval(flickering);
  flickering = null;
  by('stage').classList.remove('flicker');
  for (const side of ['left', 'right']) by(side).classList.remove('hid');
}

// ---- buttons, each with its key

function button(key, text, pressed, act, enabled = true) {
  const made = document.createElement('button');
  made.type = 'button';
  made.dataset.key = key;
  made.disabled = !enabled;
  if (pressed !== null) made.setAttribute('aria-pressed', String(pressed));
  if (key) {
    const shown = document.createElement('kbd');
    shown.textContent = key.length === 1 ? key.toUpperCase() : key;
    made.append(shown, ' ');
  }
  made.append(text);
  made.addEventListener('click', act);
  return made;
}

function group(title, buttons) {
  const set = document.createElement('fieldset');
  const legend = document.createElement('legend');
  legend.textContent = title;
  set.append(legend, ...buttons);
  return set;
}

function choices(title, field, options) {
  return group(title, options.map(([key, value, text]) =>
    button(key, text, answer[field] === value, () => choose(field, value))));
}

function draw() {
  if (hinted) by('error').textContent = '';
  hinted = false;
  const groups = [choices(item.kind === 'pair' ? 'label of both' : 'label of the anchor', 'label',
                          LABEL)];
  if (item.kind === 'pair') groups.push(choices('the pair is', 'similar', SIMILAR), changes());
  by('questions').replaceChildren(...groups);
  if (item.kind === 'anchor') drawClasses();
  const steps = [button('Enter', 'save, next', null, save, isComplete()),
                 button('Backspace', 'back', null, back)];
  if (item.kind === 'pair') {
    steps.unshift(button('a', 'all fine: correct and similar', null, accept));
    steps.push(button('Space', 'flicker', flickering !== null, flicker));
    if (item.round === 'individual') {
      steps.push(button('x', 'the anchor is bad', answer.bad, () => mark({bad: !answer.bad})));
    }
  }
  by('steps').replaceChildren(...steps);
}

function changes() {
  const reasons = session.reasons.map((reason) =>
    button(REASON_KEYS[reason], reason, answer.reasons.includes(reason),
           () => mark({reasons: toggled(answer.reasons, reason), similar: 'dissimilar'})));
  return group('what changed', [...reasons, button(
    'f', 'distinctive feature in only one', answer.feature,
    () => mark({feature: !answer.feature, similar: 'dissimilar'}))]);
}

function matching() {
  const typed = by('filter').value.trim().toLowerCase();
  const labelled = new Set(item.labels.map(({id}) => id));
  const matches = session.classes.filter(({id, name}) => !labelled.has(id) &&
                                                         name.toLowerCase().includes(typed));
  return matches.sort((a, b) => b.name.toLowerCase().startsWith(typed) -
                                a.name.toLowerCase().startsWith(typed));
}

function drawClasses() {
  by('list').replaceChildren(...matching().map(({id, name}) =>
    button('', name, answer.added.includes(id), () => toggleClass(id))));
  by('filter').focus();
}

// ---- what keys and buttons do

// Changes what is marked, and shows it.
function mark(changes) {
  Object.assign(answer, {bad: false, ...changes});
  draw();
}

function choose(field, value) {
  const same = field === 'similar' && value !== 'dissimilar';
  mark({[field]: value, ...(same && {reasons: [], feature: false})});
}

function accept() {
  mark({label: 'correct', similar: 'similar', reasons: [], feature: false});
  return save();
}

function toggleClass(id) {
  by('filter').value = '';
  mark({added: toggled(answer.added, id)});
}

function toggled(list, value) {
  return list.includes(value) ? list.filter((other) => other !== value) : [...list, value];
}

function press(key) {
  const buttons = [...document.querySelectorAll('#work button[data-key], #steps button[data-key]')];
  const match = buttons.find((button) => button.dataset.key === key);
  if (match && match.disabled) hint(); // only the one that saves is ever disabled
  else if (match) match.click();
  return Boolean(match);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || busy || !by('name').hidden) return;
  const key = event.key === ' ' ? 'Space' : event.key.length === 1 ? event.key.toLowerCase() :
    event.key;
  const tabbed = document.activeElement.matches('button:focus-visible');
  if (tabbed && (key === 'Enter' || key === 'Space')) return;
  const filter = by('filter');
  const typing = item && item.kind === 'anchor' && document.activeElement === filter;
  if (typing && filter.value && key === 'Enter') {
    const first = matching()[0];
    if (first) toggleClass(first.id);
    event.preventDefault();
  } else if (typing && (filter.value || key.length === 1 && !'123'.includes(key))) {
    if (key === 'Escape') { filter.value = ''; drawClasses(); }
  } else if (event.repeat) {
    event.preventDefault(); // a key held down answers once
  } else if (item ? press(key) : pressDone(key)) {
    event.preventDefault();
  }
}

function pressDone(key) {
  if (key === 'Enter') next();
  else if (key === 'Backspace') back();
  else return false;
  return true;
}

async function begin() {
  session = await ask('/api/session');
  annotator = session.annotator;
  by('known').replaceChildren(...session.annotators.map((name) => new Option(name)));
  by('name').hidden = annotator !== null;
  if (annotator === null) by('annotator').focus();
  else return show(await ask(`/api/next?${query()}`));
  return '';
}

by('name').addEventListener('submit', (event) => {
  event.preventDefault();
  annotator = by('annotator').value;
  next();
});
by('filter').addEventListener('input', drawClasses);
by('again').addEventListener('click', next);
by('last').addEventListener('click', back);
document.addEventListener('keydown', onKey);
window.addEventListener('resize', () => { if (item) scale(); });
exchange(begin);
