"use strict";
// What a token's title tells is shown in a card: lines of a token, a tab and its probability, those
// of the token itself first, then after an empty line those of the likeliest ones in its stead.
const card = document.createElement("div");
card.id = "card";
card.hidden = true;
card.setAttribute("role", "status");
document.body.append(card);

const tokens = [...document.querySelectorAll(".text span")];
let current = tokens[0];
tokens.forEach((token, index) => { token.tabIndex = index ? -1 : 0; });

function show(token) {
  if (token.title) {
    token.dataset.told = token.title;
    token.removeAttribute("title");
  }
  card.replaceChildren();
  let kind = "own";
  for (const line of token.dataset.told.split("\n")) {
    if (!line) {
      kind = "other";
      continue;
    }
    const row = document.createElement("div");
    row.className = kind;
    for (const part of line.split("\t")) {
      row.append(Object.assign(document.createElement("span"), { textContent: part }));
    }
    if (kind === "other") row.style.setProperty("--share", line.split("\t")[1].replace(" ", ""));
    card.append(row);
  }
  card.hidden = false;
  const place = token.getClientRects()[0] || token.getBoundingClientRect();
  const below = place.bottom + 6;
  const fits = below + card.offsetHeight < innerHeight;
  const left = Math.min(place.left, document.documentElement.clientWidth - card.offsetWidth - 8);
  card.style.left = `${Math.max(8, left)}px`;
  card.style.top = `${fits ? below : Math.max(4, place.top - card.offsetHeight - 6)}px`;
}

function hide() {
  card.hidden = true;
}

function go(token) {
  if (!token) return;
  current.tabIndex = -1;
  current = token;
  token.tabIndex = 0;
  token.focus();
}

function findBeside(direction) {
  const from = current.getClientRects()[0];
  const middle = (from.left + from.right) / 2;
  let best, distance = Infinity, line;
  for (let i = tokens.indexOf(current) + direction; i >= 0 && i < tokens.length; i += direction) {
    const place = tokens[i].getClientRects()[0];
    if (!place || Math.abs(place.top - from.top) < from.height / 2) continue;
    line ??= place.top;
    if (Math.abs(place.top - line) > from.height / 2) break;
    const far = Math.abs((place.left + place.right) / 2 - middle);
    if (far < distance) [best, distance] = [tokens[i], far];
  }
  return best;
}

const isToken = (target) => target instanceof Element && target.matches(".text span");
document.addEventListener("pointerover", (event) => {
  if (isToken(event.target)) show(event.target);
  else if (isToken(document.activeElement)) show(document.activeElement);
  else hide();
});
document.addEventListener("focusin", (event) => {
  if (!isToken(event.target)) return hide();
  go(event.target);
  show(event.target);
});
document.addEventListener("focusout", hide);
document.addEventListener("scroll", hide, true);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return hide();
  if (!isToken(event.target)) return;
  const index = tokens.indexOf(current);
  const next = {
    ArrowRight: () => tokens[index + 1],
    ArrowLeft: () => tokens[index - 1],
    ArrowDown: () => findBeside(1),
    ArrowUp: () => findBeside(-1),
    Home: () => tokens[0],
    End: () => tokens[tokens.length - 1],
  }[event.key];
  if (!next) return;
  event.preventDefault();
  go(next());
});
